CREATE OR REPLACE FUNCTION medusa.stop_network(network text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    UPDATE medusa.fragment AS f SET stopped_at = clock_timestamp()
    WHERE f.network = stop_network.network AND f.stopped_at IS NULL;
    DELETE FROM medusa.hold AS h USING medusa.fragment AS f
    WHERE f.network = stop_network.network
        AND (h.holder = f.id AND h.purpose = 'progress' OR h.stream = ANY (f.outputs));
END $$;
COMMENT ON FUNCTION medusa.stop_network(text) IS
    'Compute a network no more, and release what it holds and what is held of its outputs.';
