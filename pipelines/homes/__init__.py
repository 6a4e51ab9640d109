"""A participant's home: folder, catalog, leases, what is deployed."""
