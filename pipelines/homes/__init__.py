"""A participant's home: folder, catalog, leases, deployed fragments."""
