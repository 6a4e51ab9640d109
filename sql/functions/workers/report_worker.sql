CREATE OR REPLACE FUNCTION medusa.report_worker(
    name text, holder text, busy double precision, pace double precision, ttl_ms bigint
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known medusa.worker;
    until timestamptz := clock_timestamp() + report_worker.ttl_ms * interval '1 millisecond';
BEGIN
    INSERT INTO medusa.worker VALUES (report_worker.name, report_worker.holder,
        report_worker.busy, report_worker.pace, until)
    ON CONFLICT DO NOTHING;
    SELECT * INTO known FROM medusa.worker AS w WHERE w.name = report_worker.name FOR UPDATE;
    IF known.holder <> report_worker.holder AND known.expires_at > clock_timestamp() THEN
        RAISE EXCEPTION 'worker % runs already as %, until %: give this one another name',
            known.name, known.holder, known.expires_at USING ERRCODE = 'MDS08';
    END IF;
    UPDATE medusa.worker AS w
    SET holder = report_worker.holder, busy = report_worker.busy,
        pace = report_worker.pace, expires_at = until
    WHERE w.name = report_worker.name;
END $$;
COMMENT ON FUNCTION
    medusa.report_worker(text, text, double precision, double precision, bigint) IS
    'A worker is there for a while, with its load and pace; refused while another has its name.';
