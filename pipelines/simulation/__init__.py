"""Streams under faults, rounds of the market, market schemes."""
