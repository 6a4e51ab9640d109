CREATE OR REPLACE FUNCTION medusa.admit_late(request jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Read as medusa.revise reads it: [[]] is an array of no numbers.
    IF (SELECT cardinality(r.late) > 0 FROM jsonb_to_record(request) AS r (late bigint[]))
        IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a revision by late records names none: name those that it adds'
            USING ERRCODE = 'MD001';
    END IF;
    RETURN medusa.revise(request || jsonb_build_object('who',
        (SELECT h.participant FROM medusa.home AS h)));
END $$;
COMMENT ON FUNCTION medusa.admit_late(jsonb) IS
    'Revise a source by its late records: they are added, and nothing else changes (S13). A driver '
    'may do this.';
