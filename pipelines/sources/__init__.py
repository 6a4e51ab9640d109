"""Recorded formats, live sources, landing, closing of buckets."""
