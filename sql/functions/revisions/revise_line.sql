CREATE OR REPLACE FUNCTION medusa.revise_line(line_id integer, version bigint, parts jsonb,
    because text, who text, born integer DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ranges  int8multirange;
    changed int8multirange;
BEGIN
    SELECT range_agg(int8range(r.from_us, r.to_us)) INTO ranges
    FROM jsonb_to_recordset(parts) AS r (from_us bigint, to_us bigint);
    changed := medusa.changed_buckets(revise_line.line_id, ranges, parts);
    IF born IS NULL THEN
        SELECT p.generation + 1 INTO born FROM medusa.stream_producer AS p
        WHERE p.line_id = revise_line.line_id;
    END IF;
    INSERT INTO medusa.recall (line_id, generation, from_us, because, who, version, ranges, changed)
    VALUES (revise_line.line_id, born, coalesce(lower(changed), 9223372036854775807),
        revise_line.because, revise_line.who, revise_line.version, ranges, changed);
    UPDATE medusa.stream_producer AS p SET generation = born
    WHERE p.line_id = revise_line.line_id;
END $$;
COMMENT ON FUNCTION medusa.revise_line(integer, bigint, jsonb, text, text, integer) IS
    'Begin the next generation of a line for the ranges that are about to be replaced; `born` '
    'is what a partner calls it.';
