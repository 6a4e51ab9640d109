CREATE OR REPLACE FUNCTION medusa.hold_for_revision(stream text, from_us bigint, begins jsonb,
    needed jsonb)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    behind text[];
BEGIN
    SELECT array_agg(b) INTO behind FROM medusa.streams_behind(hold_for_revision.stream) AS b;
    PERFORM FROM medusa.stream_order AS o
    WHERE o.stream = ANY (behind) OR o.stream IN (
        SELECT i.stream FROM jsonb_each(hold_for_revision.needed) AS f (id, inputs),
            jsonb_object_keys(f.inputs) AS i (stream))
    ORDER BY o.stream FOR SHARE;
    UPDATE medusa.hold AS h SET from_us = least(h.from_us, k.from_us)
    FROM (
        SELECT hold_for_revision.stream AS stream, hold_for_revision.from_us AS from_us
        UNION ALL SELECT b.key, b.value::bigint
        FROM jsonb_each_text(hold_for_revision.begins) AS b
    ) AS k
    WHERE h.stream = k.stream AND h.stream = ANY (behind)
        AND h.purpose IN ('import', 'changes', 'delivery') AND h.from_us > k.from_us;
    PERFORM medusa.hold_again(hold_for_revision.needed);
END $$;
COMMENT ON FUNCTION medusa.hold_for_revision(text, bigint, jsonb, jsonb) IS
    'Move back the holds of all who read a revised stream, or one behind it, again, and hold what '
    'fragments read again. Before locks of lines, as in a trim.';
