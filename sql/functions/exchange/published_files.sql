CREATE OR REPLACE FUNCTION medusa.published_files(partner text, hashes text[]) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (cardinality(published_files.hashes) <= 64) IS NOT TRUE THEN
        RAISE EXCEPTION '% files cannot be sent together: request 64 at most',
            cardinality(published_files.hashes) USING ERRCODE = 'MD001';
    END IF;
    RETURN (
        SELECT jsonb_agg(p.file ORDER BY p.i)
        FROM (
            SELECT u.i, medusa.published_file(published_files.partner, u.hash) AS file
            FROM unnest(published_files.hashes) WITH ORDINALITY AS u (hash, i)
        ) AS p
        WHERE p.file IS NOT NULL
    );
END $$;
COMMENT ON FUNCTION medusa.published_files(text, text[]) IS
    'For the exchange server: published_file of each hash, in their order, without those of which '
    'there is none.';
