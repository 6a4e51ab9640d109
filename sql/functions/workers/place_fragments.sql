CREATE OR REPLACE FUNCTION medusa.place_fragments(placed jsonb, after bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- One decision at a time: each is made on the placements that it has read.
    LOCK TABLE medusa.placement IN SHARE ROW EXCLUSIVE MODE;
    IF (SELECT coalesce(max(p.number), 0) FROM medusa.placement AS p) <> place_fragments.after THEN
        RETURN false;
    END IF;
    INSERT INTO medusa.placement AS p
    SELECT w.fragment, w.worker, place_fragments.after + 1, clock_timestamp(), w.because
    FROM jsonb_to_recordset(place_fragments.placed)
        AS w (fragment text, worker text, because text)
    ON CONFLICT (fragment) DO UPDATE
    SET worker = excluded.worker, number = excluded.number, placed_at = excluded.placed_at,
        because = excluded.because;
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.place_fragments(jsonb, bigint) IS
    'Place partitions at workers; false if placements have changed since the given number.';
