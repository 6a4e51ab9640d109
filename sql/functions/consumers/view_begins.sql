CREATE OR REPLACE FUNCTION medusa.view_begins(stream text, records bigint, duration_us bigint)
RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line      medusa.stream_producer := medusa.read_line(view_begins.stream);
    width     bigint;
    stable    bigint;
    remaining numeric := view_begins.records;
    part      record;
    at        integer;
BEGIN
    SELECT s.width_us INTO width FROM medusa.stream AS s WHERE s.name = view_begins.stream;
    SELECT least(line.boundary_us, line.end_us, (
        SELECT t.from_us FROM medusa.segment AS t
        WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        ORDER BY t.to_us LIMIT 1))
    INTO stable;
    IF view_begins.duration_us IS NOT NULL THEN
        -- As numeric: the difference of two values of bigint may be out of its range.
        RETURN greatest(line.origin_us, floor(
            (stable::numeric - view_begins.duration_us) / width) * width);
    END IF;
    FOR part IN
        SELECT s.bucket_us, s.bucket_rows, s.row_count FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us <= stable
            AND s.to_us > coalesce(line.trimmed_us, line.origin_us)
        ORDER BY s.to_us DESC
    LOOP
        IF part.row_count < remaining THEN
            remaining := remaining - part.row_count;
            CONTINUE;
        END IF;
        at := cardinality(part.bucket_us);
        WHILE part.bucket_rows[at] < remaining LOOP
            remaining := remaining - part.bucket_rows[at];
            at := at - 1;
        END LOOP;
        RETURN part.bucket_us[at];
    END LOOP;
    RETURN line.origin_us;
END $$;
COMMENT ON FUNCTION medusa.view_begins(text, bigint, bigint) IS
    'The bucket with which the last records or the last duration of the stable prefix begin, the '
    'origin where there are fewer; NULL: the stream has not begun.';
