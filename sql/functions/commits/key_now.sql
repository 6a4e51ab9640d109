CREATE OR REPLACE FUNCTION medusa.key_now(sent text, streams jsonb, participant text,
    replica integer, cause medusa.cause)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    now_key text;
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.recall) THEN
        RETURN sent;
    END IF;
    -- After a revision the same is not computed again: a commit of before it is found when it is sent
    -- again.
    now_key := sent || coalesce((
        SELECT string_agg('@' || g.generation, '' ORDER BY g.stream)
        FROM (
            SELECT p.stream, max(r.generation) AS generation
            FROM medusa.stream_producer AS p JOIN medusa.recall AS r ON r.line_id = p.line_id
            WHERE r.ranges IS NULL AND p.stream IN (SELECT jsonb_object_keys(key_now.streams))
                AND (p.participant, p.replica) = (key_now.participant, key_now.replica)
            GROUP BY p.stream) AS g), '');
    -- A correction of tentative rows that is sent again finds its own rows final, and its key there.
    IF key_now.cause = 'correction'
        AND NOT EXISTS (SELECT FROM medusa.commit AS c WHERE c.key = now_key)
        AND EXISTS (
            SELECT FROM jsonb_each(key_now.streams) AS s (stream, parts)
            CROSS JOIN LATERAL jsonb_to_recordset(s.parts) AS r (from_us bigint, to_us bigint)
            JOIN medusa.stream_producer AS p ON (p.stream, p.participant, p.replica) =
                (s.stream, key_now.participant, key_now.replica)
            JOIN medusa.segment AS t ON t.line_id = p.line_id AND t.end_version IS NULL
                AND t.to_us > r.from_us AND t.from_us < r.to_us AND t.stability <> 'tentative')
    THEN
        RETURN sent || '@revision';
    END IF;
    RETURN now_key;
END $$;
COMMENT ON FUNCTION medusa.key_now(text, jsonb, text, integer, medusa.cause) IS
    'The key of a commit in the generations of its lines that recalls began: recalled results that are '
    'computed again from the same inputs are another commit.';
