"""What consumers see of versions: changes between two of them, cursors, time travel."""
