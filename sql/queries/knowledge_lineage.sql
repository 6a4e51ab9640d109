-- The lineage of some commits, in the order in which it was given.
SELECT commit_id, output, input, participant, replica, from_us, to_us, read_version, drop_rate,
    content
FROM medusa.lineage
WHERE commit_id = ANY (CAST(:commit_ids AS bigint[]))
ORDER BY commit_id, position;
