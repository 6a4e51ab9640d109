-- Place partitions at workers, unless placements have changed since the given number.
SELECT medusa.place_fragments(CAST(:placed AS jsonb), :after) AS is_placed;
