-- What of a range of a line is final and was tentative before (corrected), and what was final and was
-- replaced by a recall or a revision (revised): ranges that do not touch, as far as replaced rows are
-- kept; so many replaced rows are looked at.
WITH replaced AS MATERIALIZED (
    SELECT int8range(greatest(s.from_us, CAST(:from_us AS bigint)),
            least(s.to_us, CAST(:to_us AS bigint))) AS part, s.stability
    FROM medusa.segment AS s
    WHERE s.end_version IS NOT NULL
        AND int8range(s.line_id, s.line_id, '[]')
            && int8range(CAST(:line_id AS integer), CAST(:line_id AS integer), '[]')
        AND int8range(s.from_us, s.to_us)
            && int8range(CAST(:from_us AS bigint), CAST(:to_us AS bigint))
    LIMIT :most
), part AS (
    SELECT coalesce(range_agg(r.part) FILTER (WHERE r.stability = 'tentative'), '{}')
            AS was_tentative,
        coalesce(range_agg(r.part) FILTER (WHERE r.stability <> 'tentative'), '{}') AS was_final,
        count(*) AS looked_at
    FROM replaced AS r
), owed AS (
    SELECT coalesce(range_agg(int8range(t.from_us, t.to_us)), '{}') AS part
    FROM medusa.segment AS t
    WHERE t.line_id = :line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        AND t.to_us > CAST(:from_us AS bigint) AND t.from_us < CAST(:to_us AS bigint)
), recalled AS (
    SELECT coalesce(range_agg(coalesce(r.changed, int8multirange(int8range(r.from_us, NULL)))), '{}')
        AS part
    FROM medusa.recall AS r WHERE r.line_id = :line_id
), found AS (
    SELECT p.was_tentative - o.part AS corrected, p.was_final * c.part - o.part AS revised, p.looked_at
    FROM part AS p CROSS JOIN owed AS o CROSS JOIN recalled AS c
)
SELECT k.kind, lower(u.part) AS from_us, upper(u.part) AS to_us, f.looked_at
FROM found AS f
CROSS JOIN LATERAL (VALUES ('corrected', f.corrected - f.revised), ('revised', f.revised))
    AS k (kind, parts)
CROSS JOIN LATERAL unnest(k.parts) AS u (part)
ORDER BY k.kind, u.part;
