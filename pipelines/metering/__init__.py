"""What a driver spends, and on what: CPU of its process tree, shared among its work."""
