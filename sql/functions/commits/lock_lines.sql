CREATE OR REPLACE FUNCTION medusa.lock_lines(requests jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
    bad record;
BEGIN
    SELECT w.fragment, w.stream INTO bad
    FROM jsonb_to_recordset(requests) AS w (fragment text, stream text)
    WHERE NOT EXISTS (SELECT FROM medusa.fragment AS f
        WHERE f.id = w.fragment AND w.stream = ANY (f.outputs)) LIMIT 1;
    IF FOUND THEN
        PERFORM medusa.check_writes(bad.fragment, bad.stream);
    END IF;
    PERFORM FROM medusa.stream AS s
    WHERE s.name IN (SELECT w.stream FROM jsonb_to_recordset(requests) AS w (stream text))
    ORDER BY s.name FOR NO KEY UPDATE OF s;
    PERFORM FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) IN (
        SELECT w.stream, w.participant, w.replica FROM jsonb_to_recordset(requests) AS w
            (stream text, participant text, replica integer))
    ORDER BY p.stream, p.participant, p.replica FOR UPDATE OF p;
    SELECT w.* INTO bad FROM jsonb_to_recordset(requests) AS w
        (stream text, participant text, replica integer)
    WHERE NOT EXISTS (SELECT FROM medusa.stream_producer AS p
        WHERE (p.stream, p.participant, p.replica) = (w.stream, w.participant, w.replica)) LIMIT 1;
    IF FOUND THEN
        PERFORM medusa.refuse_without_line(bad.stream, bad.participant, bad.replica);
    END IF;
    PERFORM medusa.check_leases(requests);  -- the lines were waited for
END $$;
COMMENT ON FUNCTION medusa.lock_lines(jsonb) IS
    'Lock the lines of several sources, whose leases are locked, and look at the leases again.';
