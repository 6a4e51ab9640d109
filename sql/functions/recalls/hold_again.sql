CREATE OR REPLACE FUNCTION medusa.hold_again(needed jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one     record;
    held_us bigint;
BEGIN
    FOR one IN
        SELECT i.stream, min(i.at_us::bigint) AS from_us
        FROM jsonb_each(hold_again.needed) AS f (id, inputs),
            jsonb_each_text(f.inputs) AS i (stream, at_us)
        GROUP BY i.stream ORDER BY i.stream
    LOOP
        -- What an earlier one holds is still to be read again.
        SELECT least(one.from_us, min(h.from_us)) INTO held_us FROM medusa.hold AS h
        WHERE (h.stream, h.holder, h.purpose) = (one.stream, 'recall', 'recall')
            AND medusa.is_held(h);
        PERFORM medusa.place_hold(one.stream, 'recall', 'recall', held_us, 86400000);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.hold_again(jsonb) IS
    'Holds for a day what fragments read again after a recall or a revision: fragment -> stream -> '
    'from when on. In order of streams, as all who hold several do.';
