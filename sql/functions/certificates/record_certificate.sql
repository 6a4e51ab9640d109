CREATE OR REPLACE FUNCTION medusa.record_certificate(request jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    args  record;
    number bigint;
BEGIN
    SELECT * INTO args FROM jsonb_to_record(request) AS w (stream text, participant text,
        replica integer, version bigint, suite text, law text, from_us bigint, to_us bigint,
        passed boolean, figures jsonb, engines jsonb, quarantined bigint);
    IF NOT EXISTS (SELECT FROM medusa.stream_producer AS p
        WHERE (p.stream, p.participant, p.replica) =
            (args.stream, args.participant, args.replica))
    THEN
        PERFORM medusa.refuse_without_line(args.stream, args.participant, args.replica);
    END IF;
    INSERT INTO medusa.certificate (stream, participant, replica, version, suite, law, from_us,
        to_us, passed, figures, engines, quarantined)
    VALUES (args.stream, args.participant, args.replica, args.version, args.suite, args.law,
        args.from_us, args.to_us, args.passed, args.figures, args.engines, args.quarantined)
    RETURNING certificate_id INTO number;
    RETURN number;
END $$;
COMMENT ON FUNCTION medusa.record_certificate(jsonb) IS
    'Record the result of a check; returns the number of the certificate.';
