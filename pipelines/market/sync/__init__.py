"""Contract synchronisation: keys, signatures, messages to partners."""
