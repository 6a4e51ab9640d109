"""The ground floor: settings, time as text, processes, logs, failpoints."""
