CREATE OR REPLACE FUNCTION medusa.note_stable_prefix() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    SELECT least(least(p.boundary_us, p.end_us), (
        SELECT s.from_us FROM medusa.segment AS s
        WHERE s.line_id = p.line_id AND s.end_version IS NULL AND s.stability = 'tentative'
        ORDER BY s.to_us LIMIT 1))
    INTO NEW.stable_us FROM medusa.stream_producer AS p WHERE p.line_id = NEW.line_id;
    NEW.made_at := clock_timestamp();
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.note_stable_prefix() IS
    'Records with a version when this home reached it and where the stable prefix ended.';
