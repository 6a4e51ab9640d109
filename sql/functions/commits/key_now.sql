CREATE OR REPLACE FUNCTION medusa.key_now(sent text, streams jsonb, participant text,
    replica integer)
RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.recall) THEN
        RETURN sent;
    END IF;
    RETURN sent || coalesce((
        SELECT string_agg('@' || p.generation, '' ORDER BY p.stream)
        FROM medusa.stream_producer AS p
        WHERE p.generation > 1 AND p.stream IN (SELECT jsonb_object_keys(key_now.streams))
            AND (p.participant, p.replica) = (key_now.participant, key_now.replica)), '');
END $$;
COMMENT ON FUNCTION medusa.key_now(text, jsonb, text, integer) IS
    'The key of a commit in the present generations of its lines: recalled results that are '
    'computed again from the same inputs are another commit.';
