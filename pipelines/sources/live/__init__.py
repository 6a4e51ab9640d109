"""Live sources: landed in small batches, with a promised boundary."""
