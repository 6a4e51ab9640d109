"""A participant's catalog: the interface, its two implementations, and how a home comes to be."""
