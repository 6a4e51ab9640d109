"""The catalog in memory, for simulations and tests."""
