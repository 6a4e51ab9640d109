CREATE OR REPLACE FUNCTION medusa.recall_closure(root integer, begins_us bigint) RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found jsonb := jsonb_build_object(root, begins_us);
    todo  integer[] := ARRAY[root];
    line  record;
    other record;
    at_us bigint;
BEGIN
    WHILE cardinality(todo) > 0 LOOP
        SELECT p.line_id, p.stream, p.participant, p.replica,
            p.participant = h.participant AS is_own INTO line
        FROM medusa.stream_producer AS p CROSS JOIN medusa.home AS h WHERE p.line_id = todo[1];
        at_us := (found->>(todo[1]::text))::bigint;
        todo := todo[2:];
        FOR other IN
            -- The outputs of a fragment advance together, so they begin again together.
            SELECT o.line_id, at_us - (at_us % w.width_us + w.width_us) % w.width_us AS from_us
            FROM medusa.fragment AS f
            CROSS JOIN LATERAL (
                SELECT max(s.width_us) AS width_us FROM medusa.stream AS s
                WHERE s.name = ANY (f.outputs)) AS w
            JOIN medusa.stream_producer AS o ON o.stream = ANY (f.outputs)
                AND (o.participant, o.replica) = (line.participant, line.replica)
            WHERE line.is_own AND line.replica >= 0 AND line.stream = ANY (f.outputs)
                AND f.id NOT LIKE 'import/%'
            UNION ALL
            -- Whatever has a row that was computed from what is taken back.
            SELECT o.line_id, at_us - (at_us % s.width_us + s.width_us) % s.width_us
            FROM medusa.home AS h
            CROSS JOIN medusa.fragment AS f
            JOIN medusa.stream_producer AS o ON o.stream = ANY (f.outputs)
                AND o.participant = h.participant
            JOIN medusa.stream AS s ON s.name = o.stream
            WHERE (line.stream = ANY (f.inputs) OR f.id = 'import/' || line.stream)
                AND o.line_id <> line.line_id
                AND EXISTS (
                    SELECT FROM medusa.segment AS t
                    JOIN medusa.lineage AS l ON l.commit_id = t.commit_id AND l.output = o.stream
                    WHERE t.line_id = o.line_id AND t.end_version IS NULL AND t.to_us > at_us
                        AND (l.input, l.participant, l.replica) =
                            (line.stream, line.participant, line.replica)
                        AND l.to_us > at_us)
        LOOP
            IF (other.from_us >= (found->>(other.line_id::text))::bigint) IS NOT TRUE THEN
                found := found || jsonb_build_object(other.line_id, other.from_us);
                todo := todo || other.line_id;
            END IF;
        END LOOP;
    END LOOP;
    RETURN found;
END $$;
COMMENT ON FUNCTION medusa.recall_closure(integer, bigint) IS
    'Line -> the event time from which it is taken back, for all in this home that is computed '
    'from a line''s rows from a bucket on, the line included: over the wiring, where lineage '
    'shows that it was read.';
