-- What the last steps of each fragment of this home cost, the newest first: milliseconds in all
-- phases except verification, records, and whether the step was without an input.
SELECT a.fragment, m.records_in, c.cause = 'tentative' AS is_tentative,
    (SELECT coalesce(sum(CAST(p.value AS double precision)), 0)
     FROM jsonb_each_text(m.phases_ms) AS p WHERE p.key <> 'verify') AS ms
FROM (
    SELECT DISTINCT b.fragment FROM medusa.assignment AS b WHERE b.participant = :participant
) AS a
CROSS JOIN LATERAL (
    SELECT c.commit_id, c.cause FROM medusa.commit AS c
    WHERE c.fragment = a.fragment AND c.cause IN ('normal', 'tentative', 'correction')
        -- What was dropped as a whole had no job.
        AND NOT EXISTS (
            SELECT FROM medusa.lineage AS l
            WHERE l.commit_id = c.commit_id AND l.drop_rate = 1)
    ORDER BY c.commit_id DESC LIMIT :steps_max
) AS c
JOIN medusa.step_metrics AS m ON m.commit_id = c.commit_id
ORDER BY c.commit_id DESC;
