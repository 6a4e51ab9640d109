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
    IF NOT EXISTS (
        SELECT FROM (
            SELECT a.plan FROM medusa.assignment AS a
            WHERE a.fragment = 'landing/' || (request->>'stream')
            ORDER BY a.epoch DESC LIMIT 1) AS newest
        JOIN medusa.plan AS p ON p.id = newest.plan
        CROSS JOIN LATERAL jsonb_path_query(p.document::jsonb, 'strict $.network.sources[*]', '{}',
            true) AS s
        WHERE s->>'name' = request->>'stream' AND s->>'late' = 'revise')
    THEN
        RAISE EXCEPTION 'the plan of % does not admit late records: declare late="revise" of it',
            request->>'stream' USING ERRCODE = 'MD001';
    END IF;
    RETURN medusa.revise(request || jsonb_build_object('who',
        (SELECT h.participant FROM medusa.home AS h)));
END $$;
COMMENT ON FUNCTION medusa.admit_late(jsonb) IS
    'Revise a source by its late records: they are added, and nothing else changes (S13). A driver '
    'may do this if the plan in force says so.';
