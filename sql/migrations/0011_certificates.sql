-- Certificates: what was found of a closed window, law by law.

CREATE TABLE medusa.certificate (
    certificate_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream         text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    participant    text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica        integer NOT NULL CHECK (replica >= 0),
    version        bigint NOT NULL,
    suite          text NOT NULL,
    law            text NOT NULL,
    from_us        bigint NOT NULL,
    to_us          bigint NOT NULL,
    passed         boolean NOT NULL,
    figures        jsonb NOT NULL,
    engines        jsonb NOT NULL,
    quarantined    bigint NOT NULL,
    certified_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT certificate_is_of_a_window CHECK (from_us < to_us),
    CONSTRAINT certificate_names_suite_and_law
        CHECK (suite ~ '^[a-z][a-z_]{0,62}$' AND law ~ '^[SLI][0-9]{1,2}$'),
    CONSTRAINT certificate_has_figures
        CHECK (jsonb_typeof(figures) = 'object' AND jsonb_typeof(engines) = 'object'),
    CONSTRAINT certificate_counts_records CHECK (quarantined >= 0)
);
COMMENT ON TABLE medusa.certificate IS
    'What a check found of a closed window of a line, whether it passed or not; insert-only.';
COMMENT ON COLUMN medusa.certificate.version IS 'Of the line, when it was looked at.';
COMMENT ON COLUMN medusa.certificate.suite IS 'Which check: converged, complete and so on.';
COMMENT ON COLUMN medusa.certificate.law IS 'The law that it is about, such as L2.';
COMMENT ON COLUMN medusa.certificate.figures IS 'What was counted, tentative and final apart.';
COMMENT ON COLUMN medusa.certificate.engines IS 'Box -> which engine computed it again, and why.';
COMMENT ON COLUMN medusa.certificate.quarantined IS
    'Records of the stream and its sources in quarantine, of any time, which no result holds.';
CREATE INDEX certificate_of_stream ON medusa.certificate (stream, certificate_id);
COMMENT ON INDEX medusa.certificate_of_stream IS 'The newest certificates of a stream.';
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.certificate
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
REVOKE ALL ON medusa.certificate FROM PUBLIC;

CREATE FUNCTION medusa.record_certificate(request jsonb) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    asked  record;
    number bigint;
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (stream text, participant text,
        replica integer, version bigint, suite text, law text, from_us bigint, to_us bigint,
        passed boolean, figures jsonb, engines jsonb, quarantined bigint);
    IF NOT EXISTS (SELECT FROM medusa.stream_producer AS p
        WHERE (p.stream, p.participant, p.replica) =
            (asked.stream, asked.participant, asked.replica))
    THEN
        PERFORM medusa.refuse_without_line(asked.stream, asked.participant, asked.replica);
    END IF;
    INSERT INTO medusa.certificate (stream, participant, replica, version, suite, law, from_us,
        to_us, passed, figures, engines, quarantined)
    VALUES (asked.stream, asked.participant, asked.replica, asked.version, asked.suite, asked.law,
        asked.from_us, asked.to_us, asked.passed, asked.figures, asked.engines, asked.quarantined)
    RETURNING certificate_id INTO number;
    RETURN number;
END $$;
COMMENT ON FUNCTION medusa.record_certificate(jsonb) IS
    'Write down what a check found; the number of the certificate.';
REVOKE ALL ON FUNCTION medusa.record_certificate(jsonb) FROM PUBLIC;

CREATE VIEW medusa_api.certificates WITH (security_invoker = true) AS
SELECT certificate_id, stream, participant, replica, version, suite, law, from_us, to_us, passed,
    figures, engines, quarantined, certified_at
FROM medusa.certificate;
COMMENT ON VIEW medusa_api.certificates IS 'What checks found, window by window.';

CREATE FUNCTION medusa.grant_certificates_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text;
    role text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'analyst', 'airflow'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT SELECT ON medusa.certificate, medusa_api.certificates TO %I', role);
        IF kind = 'job' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.record_certificate TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_certificates_to_roles() IS
    'Jobs write certificates; they, Airflow and analysts read them.';
REVOKE ALL ON FUNCTION medusa.grant_certificates_to_roles() FROM PUBLIC;
SELECT medusa.grant_certificates_to_roles();
