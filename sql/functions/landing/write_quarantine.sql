CREATE OR REPLACE FUNCTION medusa.write_quarantine(records jsonb, commit_id bigint,
    batch_no bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    unknown text;
    numbers bigint[];
BEGIN
    SELECT r.stream INTO unknown FROM jsonb_to_recordset(records) AS r (stream text)
    WHERE NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = r.stream) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'quarantine names stream %, which is not deployed here: deploy it first',
            unknown USING ERRCODE = 'MD001';
    END IF;
    WITH written AS (INSERT INTO medusa.quarantine
        (stream, origin, position, field, reason, content, commit_id, batch_no, size_bytes, sha256,
        outputs)
    SELECT r.stream, r.origin, r.position, r.field, r.reason, r.content,
        write_quarantine.commit_id, write_quarantine.batch_no, r.size_bytes, r.sha256,
        coalesce(r.outputs, '{}')
    FROM ROWS FROM (jsonb_to_recordset(records) AS (stream text, origin text, position bigint,
            field text, reason text, content text, size_bytes bigint, sha256 text, outputs text[]))
        WITH ORDINALITY
        AS r (stream, origin, position, field, reason, content, size_bytes, sha256, outputs, i)
    ORDER BY r.i
    RETURNING quarantine_id)
    SELECT array_agg(w.quarantine_id ORDER BY w.quarantine_id) INTO numbers FROM written AS w;
    IF batch_no IS NOT NULL AND jsonb_path_exists(records, '$[*].late_row') THEN
        PERFORM medusa.keep_late_records(records, numbers, batch_no);
    END IF;
END $$;
COMMENT ON FUNCTION medusa.write_quarantine(jsonb, bigint, bigint) IS
    'Write records to quarantine, and keep all of a late one that a revision is to admit.';
