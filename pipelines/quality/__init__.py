"""Certificates of closed windows, computed by another engine."""
