"""Key partitions: a fragment as several fragments, each over its share of the keys."""
