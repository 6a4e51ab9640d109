"""Settings, clock, files, processes, logs; times and tables as text."""
