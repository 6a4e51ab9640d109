CREATE OR REPLACE FUNCTION medusa.open_view(name text, reader text, limit_ms bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    of_stream text;
    held      medusa.hold;
BEGIN
    SELECT v.stream INTO of_stream FROM medusa.stream_view AS v WHERE v.name = open_view.name;
    -- A trim that is being made may move the view forward: the hold is read when it has ended.
    PERFORM FROM medusa.stream_order AS o WHERE o.stream = of_stream FOR SHARE;
    UPDATE medusa.hold AS h SET placed_at = clock_timestamp()
    WHERE (h.stream, h.holder, h.purpose) = (of_stream, 'view:' || open_view.name, 'view')
        AND medusa.is_held(h)
    RETURNING h.* INTO held;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'view % has expired or is not there: remove it and make it again',
            open_view.name USING ERRCODE = 'MD007';
    END IF;
    PERFORM medusa.place_hold(of_stream, 'view:' || open_view.name,
        'reading ' || open_view.reader, held.from_us, open_view.limit_ms);
    RETURN held.from_us;
END $$;
COMMENT ON FUNCTION medusa.open_view(text, text, bigint) IS
    'Renew the limit of a view and hold its buckets for a reader, whatever the view moves on to; '
    'where they begin.';
