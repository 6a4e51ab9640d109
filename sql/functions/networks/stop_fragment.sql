CREATE OR REPLACE FUNCTION medusa.stop_fragment(fragment text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stopped medusa.fragment;
BEGIN
    IF stop_fragment.fragment NOT LIKE 'moved/%' THEN
        RAISE EXCEPTION 'fragment % is no moved one: change its contracts', stop_fragment.fragment
            USING ERRCODE = 'MD001';
    END IF;
    UPDATE medusa.fragment AS f SET stopped_at = clock_timestamp()
    WHERE f.id = stop_fragment.fragment AND f.stopped_at IS NULL
    RETURNING f.* INTO stopped;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM medusa.hold AS h
    WHERE h.holder = stopped.id AND h.purpose = 'progress'
        OR h.stream = ANY (stopped.outputs) AND NOT EXISTS (
            SELECT FROM medusa.fragment AS f
            WHERE h.stream = ANY (f.outputs) AND f.stopped_at IS NULL
                AND f.id NOT LIKE 'import/%');
    -- Inputs that nothing else here reads are imported no more; deploying starts an import again.
    UPDATE medusa.fragment AS f SET stopped_at = clock_timestamp()
    FROM unnest(stopped.inputs || stopped.outputs) AS i (name)
    WHERE f.id = 'import/' || i.name AND f.stopped_at IS NULL AND NOT EXISTS (
        SELECT FROM medusa.fragment AS r
        JOIN medusa.assignment AS a ON a.fragment = r.id
        CROSS JOIN medusa.home AS h
        WHERE r.stopped_at IS NULL AND (
            i.name = ANY (r.inputs) AND a.participant = h.participant
            OR i.name = ANY (r.outputs) AND r.id LIKE 'moved/%'
                AND a.participant <> h.participant));
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.stop_fragment(text) IS
    'Compute a moved fragment no more, import no more what it alone read, and release what it holds '
    'and what is held of its outputs alone. False if it was stopped before, or is not deployed.';
