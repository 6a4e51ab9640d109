"""Certificates: what Great Expectations finds of closed windows, and the oracle behind it."""
