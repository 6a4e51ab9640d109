"""Live sources: what goes on arriving is landed in small batches, with a boundary promised."""
