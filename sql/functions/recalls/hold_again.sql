CREATE OR REPLACE FUNCTION medusa.hold_again(needed jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one   record;
    holds text;
BEGIN
    FOR one IN
        SELECT i.stream, min(i.at_us::bigint) AS from_us
        FROM jsonb_each(hold_again.needed) AS f (id, inputs),
            jsonb_each_text(f.inputs) AS i (stream, at_us)
        GROUP BY i.stream ORDER BY i.stream
    LOOP
        -- Two at once would choose the same holder, and the later one would move the hold of the first.
        PERFORM FROM medusa.stream AS s WHERE s.name = one.stream FOR NO KEY UPDATE;
        -- A hold that is less than a day old is extended to what is needed now, and not renewed: with
        -- revisions without end it would never expire. After that day the other holder places one.
        UPDATE medusa.hold AS h SET from_us = least(h.from_us, one.from_us), limit_ms = 172800000
        WHERE h.stream = one.stream AND h.holder IN ('recall', 'recall-2') AND h.purpose = 'recall'
            AND h.placed_at > clock_timestamp() - interval '1 day';
        CONTINUE WHEN FOUND;
        SELECT n.holder INTO holds FROM (VALUES ('recall'), ('recall-2')) AS n (holder)
        LEFT JOIN medusa.hold AS h
            ON (h.stream, h.holder, h.purpose) = (one.stream, n.holder, 'recall')
        ORDER BY h.placed_at NULLS FIRST, n.holder LIMIT 1;
        PERFORM medusa.place_hold(one.stream, holds, 'recall', one.from_us, 172800000);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.hold_again(jsonb) IS
    'Holds for a day at least, and two at most, what fragments read again after a recall or a '
    'revision: fragment -> stream -> from when on. In order of streams, as all who hold several do.';
