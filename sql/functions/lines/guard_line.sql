CREATE OR REPLACE FUNCTION medusa.guard_line() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_recalled boolean := false;
    is_revised  boolean;
BEGIN
    IF NEW.generation IS DISTINCT FROM OLD.generation THEN
        SELECT r.ranges IS NOT NULL INTO is_revised FROM medusa.recall AS r
        WHERE (r.line_id, r.generation) = (OLD.line_id, NEW.generation)
            AND r.made_in = pg_current_xact_id_if_assigned();
        is_recalled := NEW.generation > OLD.generation AND NEW.generation = (
                SELECT max(r.generation) FROM medusa.recall AS r
                WHERE r.line_id = OLD.line_id AND r.made_in = pg_current_xact_id_if_assigned())
            AND (NEW.boundary_us IS NOT NULL OR OLD.boundary_us IS NULL)
            AND NOT EXISTS (
                SELECT FROM medusa.segment AS s
                WHERE s.line_id = OLD.line_id AND s.end_version IS NULL
                    AND s.to_us > NEW.boundary_us);
        IF is_recalled IS NOT TRUE THEN
            RAISE EXCEPTION 'the line of % is of generation %: only medusa.recall begins another',
                OLD.stream, OLD.generation USING ERRCODE = 'MDS01';
        END IF;
        is_recalled := NOT is_revised;  -- a revision moves no boundary
    END IF;
    IF (NEW.line_id, NEW.stream, NEW.participant, NEW.replica)
        IS DISTINCT FROM (OLD.line_id, OLD.stream, OLD.participant, OLD.replica)
    THEN
        RAISE EXCEPTION 'the line of % by %/% cannot become another: insert a new line',
            OLD.stream, OLD.participant, OLD.replica USING ERRCODE = 'MDS01';
    END IF;
    IF NOT is_recalled AND (NEW.boundary_us < OLD.boundary_us
        OR (NEW.boundary_us IS NULL AND OLD.boundary_us IS NOT NULL))
    THEN
        RAISE EXCEPTION 'the boundary of % is at % and never goes back: give % or later',
            OLD.stream, OLD.boundary_us, OLD.boundary_us USING ERRCODE = 'MDS01';
    END IF;
    IF NEW.promised_us < OLD.promised_us
        OR (NEW.promised_us IS NULL AND OLD.promised_us IS NOT NULL)
    THEN
        RAISE EXCEPTION 'source % has promised % and a promise never goes back: give % or later',
            OLD.stream, OLD.promised_us, OLD.promised_us USING ERRCODE = 'MDS01';
    END IF;
    IF OLD.origin_us IS NOT NULL AND NEW.origin_us IS DISTINCT FROM OLD.origin_us THEN
        RAISE EXCEPTION 'stream % begins at %, which cannot change: give that origin', OLD.stream, OLD.origin_us
            USING ERRCODE = 'MDS01';
    END IF;
    IF NOT is_recalled AND OLD.end_us IS NOT NULL AND NEW.end_us IS DISTINCT FROM OLD.end_us THEN
        RAISE EXCEPTION 'stream % ends at %, which cannot change: give that end', OLD.stream, OLD.end_us
            USING ERRCODE = 'MDS01';
    END IF;
    IF NEW.last_version < OLD.last_version THEN
        RAISE EXCEPTION 'the version of % is at % and never goes back', OLD.stream,
            OLD.last_version USING ERRCODE = 'MDS01';
    END IF;
    IF NEW.trimmed_us IS DISTINCT FROM OLD.trimmed_us THEN
        PERFORM medusa.check_trim(OLD, NEW);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_line() IS
    'S1: boundaries, promises and versions never go back but in a recall. S7: see check_trim.';
