-- Where the newest so many live rows of a line in a range begin; the range's start if there are fewer.
SELECT coalesce((
    SELECT t.from_us FROM medusa.segment AS t
    WHERE t.line_id = :line_id AND t.end_version IS NULL
        AND t.to_us > CAST(:from_us AS bigint) AND t.to_us <= CAST(:to_us AS bigint)
    ORDER BY t.to_us DESC OFFSET :most LIMIT 1), CAST(:from_us AS bigint)) AS from_us;
