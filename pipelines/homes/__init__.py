"""A participant's home: its folder, its catalog, its leases."""
