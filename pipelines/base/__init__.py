"""Settings, failpoints, process facts, logs; times and tables as text."""
