CREATE OR REPLACE FUNCTION medusa.note_retries(stream text, retried bigint[],
    batch_no bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad bigint;
BEGIN
    SELECT n INTO bad FROM unnest(retried) AS n
    WHERE NOT EXISTS (SELECT FROM medusa.quarantine AS q
        WHERE q.quarantine_id = n AND q.stream = note_retries.stream) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'stream % has no record % in quarantine: give one that is there',
            note_retries.stream, bad USING ERRCODE = 'MD001';
    END IF;
    SELECT r.quarantine_id INTO bad FROM medusa.quarantine_retry AS r
    WHERE r.quarantine_id = ANY (retried) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'record % of quarantine has landed already: leave it out', bad
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.quarantine_retry (quarantine_id, batch_no)
    SELECT n, note_retries.batch_no FROM unnest(retried) AS n;
    IF cardinality(retried) > 0 THEN
        DELETE FROM medusa.late_record AS l WHERE l.quarantine_id = ANY (retried);
    END IF;
END $$;
COMMENT ON FUNCTION medusa.note_retries(text, bigint[], bigint) IS
    'Note which quarantined records land repaired with a batch, each once.';
