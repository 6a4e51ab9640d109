"""The status of a home, log lines of decisions, and metrics."""
