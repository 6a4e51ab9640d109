CREATE OR REPLACE FUNCTION medusa.change_owner(fragment text, partition integer, epoch bigint,
    participant text, replica integer, from_us bigint, timeout_ms bigint, because text)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    assigned record;
    line     record;
    last     bigint;
    ahead    bigint;
BEGIN
    -- Changes of deployments and owners of one home come one after the other.
    PERFORM FROM medusa.home FOR UPDATE;
    SELECT a.participant, a.replica, f.outputs INTO assigned
    FROM medusa.assignment AS a
    JOIN medusa.home AS h ON h.participant = a.participant
    JOIN medusa.fragment AS f ON f.id = a.fragment
    WHERE (a.fragment, a.partition) = (fragment, partition) AND a.replica >= 0
        AND cardinality(f.inputs) > 0
    ORDER BY a.epoch DESC LIMIT 1;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fragment % is not computed here: change its owner where it is', fragment
            USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (SELECT FROM medusa.fragment_owner AS o
        WHERE (o.fragment, o.partition, o.epoch) = (fragment, partition, epoch)
            AND (o.participant, o.replica, o.from_us, o.timeout_ms, o.because) =
                (participant, replica, from_us, timeout_ms, because))
    THEN
        RETURN;
    END IF;
    SELECT coalesce(max(o.epoch), 0) INTO last FROM medusa.fragment_owner AS o
    WHERE (o.fragment, o.partition) = (fragment, partition);
    IF epoch IS DISTINCT FROM last + 1 THEN
        RAISE EXCEPTION 'epoch % of the owners of % is not the next one: the log is at %, read '
            'again and decide again', epoch, fragment, last USING ERRCODE = 'MD002';
    END IF;
    FOR line IN
        SELECT p.stream, p.boundary_us, s.width_us, EXISTS (
            SELECT FROM medusa.stream_producer AS q
            WHERE (q.stream, q.participant, q.replica) = (p.stream, participant, replica)
        ) AS has_line
        FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
        WHERE p.stream = ANY (assigned.outputs)
            AND (p.participant, p.replica) = (assigned.participant, assigned.replica)
        ORDER BY p.stream FOR UPDATE OF p
    LOOP
        IF NOT line.has_line THEN
            RAISE EXCEPTION '%/% writes no line of %: deploy it first', participant, replica,
                line.stream USING ERRCODE = 'MD001';
        END IF;
        IF from_us % line.width_us <> 0 THEN
            RAISE EXCEPTION '% is no bucket of %: give a multiple of % us', from_us, line.stream,
                line.width_us USING ERRCODE = 'MD001';
        END IF;
        -- What is computed has its owner.
        IF from_us < line.boundary_us THEN
            RAISE EXCEPTION '% is computed up to %: read again and decide again', line.stream,
                line.boundary_us USING ERRCODE = 'MD002';
        END IF;
        SELECT max(o.from_us) INTO ahead FROM medusa.fragment_owner AS o
        WHERE (o.fragment, o.partition) = (fragment, partition)
            AND o.from_us > coalesce(line.boundary_us, o.from_us - 1);
        IF from_us > ahead THEN
            RAISE EXCEPTION 'the owner of % changes at % already: wait until it is computed up '
                'to there, or change the owner before', fragment, ahead USING ERRCODE = 'MD002';
        END IF;
    END LOOP;
    INSERT INTO medusa.fragment_owner
        (fragment, partition, epoch, participant, replica, from_us, timeout_ms, because)
    VALUES (fragment, partition, epoch, participant, replica, from_us, timeout_ms, because);
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.change_owner(text, integer, bigint, text, integer, bigint, bigint, text) IS
    'Note who owns a fragment''s buckets from one on (S15): one that is not computed yet. A conflict '
    'if the log or the line has moved on meanwhile.';
