CREATE OR REPLACE FUNCTION medusa.settle(by medusa.recall) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.divergence_settled (divergence_id, recall_id)
    SELECT d.divergence_id, by.recall_id
    FROM medusa.divergence AS d JOIN medusa.stream_producer AS p ON p.stream = d.stream
    WHERE p.line_id = by.line_id AND d.bucket_us >= by.from_us
        AND ((d.participant, d.replica) = (p.participant, p.replica)
            OR (d.other_participant, d.other_replica) = (p.participant, p.replica))
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa.settle(medusa.recall) IS
    'Rows that a producer has taken back are no longer in dispute; their replacements are '
    'compared again.';
