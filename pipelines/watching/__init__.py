"""Watching a home: how it stands, what its driver decides (log lines), and metrics."""
