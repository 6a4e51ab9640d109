CREATE OR REPLACE FUNCTION medusa.declare_following(stream text, follows boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_following.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deploy its network first',
            declare_following.stream USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_promise AS p (stream, follows_revisions)
    VALUES (declare_following.stream, declare_following.follows)
    ON CONFLICT ON CONSTRAINT stream_promise_pkey DO UPDATE
    SET follows_revisions = excluded.follows_revisions, declared_at = clock_timestamp()
    WHERE p.follows_revisions <> excluded.follows_revisions;
END $$;
COMMENT ON FUNCTION medusa.declare_following(text, boolean) IS
    'Say whether revisions of a partner''s line are followed here without asking the operator; the '
    'same again is nothing.';
