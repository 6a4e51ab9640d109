CREATE OR REPLACE FUNCTION medusa.declare_source(stream text, document text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s
        WHERE s.name = declare_source.stream AND s.kind = 'source')
    THEN
        RAISE EXCEPTION '% is no source that is deployed here: deploy its network first',
            declare_source.stream USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.source AS s (stream, document)
    VALUES (declare_source.stream, declare_source.document)
    ON CONFLICT ON CONSTRAINT source_pkey DO UPDATE
    SET document = excluded.document, declared_at = clock_timestamp()
    WHERE s.document <> excluded.document;
END $$;
COMMENT ON FUNCTION medusa.declare_source(text, text) IS
    'Say how a source is fed; the same again is nothing.';
