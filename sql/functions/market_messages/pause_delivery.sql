CREATE OR REPLACE FUNCTION medusa_market.pause_delivery(partner text, problem text,
    jitter double precision)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    wait_s double precision := 0.5 + least(greatest(coalesce(jitter, 0), 0), 1);
BEGIN
    PERFORM medusa_market.check_names(pause_delivery.partner);
    INSERT INTO medusa_market.delivery_pause AS p (partner, failed, since, tries_at, problem)
    VALUES (pause_delivery.partner, 1, clock_timestamp(),
        clock_timestamp() + wait_s * interval '1 s', left(pause_delivery.problem, 500))
    ON CONFLICT ON CONSTRAINT delivery_pause_pkey DO UPDATE SET failed = p.failed + 1,
        problem = EXCLUDED.problem,
        tries_at = clock_timestamp() + wait_s * least(1 << least(p.failed, 6), 60)
            * interval '1 s';
END $$;
COMMENT ON FUNCTION medusa_market.pause_delivery(text, text, double precision) IS
    'A partner''s inbox took nothing: pause for a second, twice as long each time, up to a '
    'minute, changed by at most half of it by jitter (0 to 1).';
