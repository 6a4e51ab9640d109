"""Versions for consumers: changes between two, cursors, time travel."""
