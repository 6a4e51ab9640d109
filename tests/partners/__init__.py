"""Partners in different folders: joining, removing, and keys that change."""
