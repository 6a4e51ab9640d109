-- A range of a line in cells of equal length: of each cell and stability, how much event time the live
-- rows have in it. From whole_from_us to whole_to_us the live rows have no hole: of that (whole) what is
-- tentative or lost (taken) is looked up, and the rest is stable; before and behind it all rows are
-- looked at.
WITH other AS (
    SELECT t.from_us, t.to_us, t.stability::text AS stability FROM medusa.segment AS t
    WHERE t.line_id = :line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        AND t.to_us > CAST(:from_us AS bigint) AND t.from_us < CAST(:to_us AS bigint)
    UNION ALL
    SELECT g.from_us, g.to_us, 'gap' FROM medusa.segment AS g
    WHERE g.line_id = :line_id AND g.end_version IS NULL AND g.stability = 'gap'
        AND g.to_us > CAST(:from_us AS bigint) AND g.from_us < CAST(:to_us AS bigint)
), part AS (
    SELECT o.from_us, o.to_us, o.stability FROM other AS o
    UNION ALL
    SELECT greatest(o.from_us, CAST(:whole_from_us AS bigint)),
        least(o.to_us, CAST(:whole_to_us AS bigint)), 'taken'
    FROM other AS o
    UNION ALL
    SELECT CAST(:whole_from_us AS bigint), CAST(:whole_to_us AS bigint), 'whole'
    WHERE CAST(:whole_from_us AS bigint) < CAST(:whole_to_us AS bigint)
    UNION ALL
    SELECT b.from_us, least(b.to_us, CAST(:whole_from_us AS bigint)), 'stable'
    FROM medusa.segment AS b
    WHERE b.line_id = :line_id AND b.end_version IS NULL AND b.stability = 'stable'
        AND b.to_us > CAST(:from_us AS bigint) AND b.to_us <= CAST(:whole_from_us AS bigint)
    UNION ALL
    SELECT greatest(a.from_us, CAST(:whole_to_us AS bigint)), a.to_us, 'stable'
    FROM medusa.segment AS a
    WHERE a.line_id = :line_id AND a.end_version IS NULL AND a.stability = 'stable'
        AND a.to_us > greatest(CAST(:whole_to_us AS bigint), CAST(:from_us AS bigint))
        AND a.from_us < CAST(:to_us AS bigint)
), inside AS (
    SELECT p.stability, greatest(p.from_us, CAST(:from_us AS bigint)) AS from_us,
        least(p.to_us, CAST(:to_us AS bigint)) AS to_us
    FROM part AS p
)
SELECT c.cell, c.stability, CAST(sum(c.covered_us) AS bigint) AS covered_us
FROM (
    SELECT n.cell, i.stability,
        least(i.to_us, :from_us + (n.cell + 1) * CAST(:cell_us AS bigint))
            - greatest(i.from_us, :from_us + n.cell * CAST(:cell_us AS bigint)) AS covered_us
    FROM inside AS i
    CROSS JOIN LATERAL generate_series((i.from_us - :from_us) / CAST(:cell_us AS bigint),
        (i.to_us - 1 - :from_us) / CAST(:cell_us AS bigint)) AS n (cell)
    WHERE i.from_us < i.to_us
) AS c
GROUP BY c.cell, c.stability ORDER BY c.cell, c.stability;
