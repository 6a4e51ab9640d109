"""Recorded files of every format, as records."""
