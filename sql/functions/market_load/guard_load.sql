CREATE OR REPLACE FUNCTION medusa_market.guard_load() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_TABLE_NAME = 'load_sample' THEN
        IF OLD.ended_at < clock_timestamp() - medusa_market.load_kept() THEN
            RETURN OLD;
        END IF;
    ELSIF NOT EXISTS (SELECT FROM medusa_market.load_sample AS s
        WHERE s.sample_id = OLD.sample_id) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of % is refused: samples of load stay for as long as '
        'medusa_market.load_retention says', TG_TABLE_NAME USING ERRCODE = 'MDLOG';
END $$;
COMMENT ON FUNCTION medusa_market.guard_load() IS
    'Raises: a sample is removed when its retention has passed.';
