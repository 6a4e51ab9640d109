CREATE OR REPLACE FUNCTION medusa.deploy(request jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    wanted record;
    stands record;
    last   bigint;
BEGIN
    -- Deployments of one home come one after the other.
    PERFORM FROM medusa.home FOR UPDATE;

    FOR wanted IN SELECT * FROM jsonb_to_recordset(request->'streams')
        AS w (name text, kind text, width_us bigint, columns jsonb, key_columns text[])
    LOOP
        SELECT * INTO stands FROM medusa.stream WHERE name = wanted.name;
        IF NOT FOUND THEN
            INSERT INTO medusa.stream (name, kind, width_us, columns, key_columns) VALUES
                (wanted.name, wanted.kind, wanted.width_us, wanted.columns, wanted.key_columns);
        ELSIF (stands.kind, stands.width_us, stands.columns, stands.key_columns) IS DISTINCT FROM
            (wanted.kind, wanted.width_us, wanted.columns, wanted.key_columns)
        THEN
            RAISE EXCEPTION 'stream % exists with another shape (kind, width, columns or key): '
                'give the new one another name', wanted.name USING ERRCODE = 'MD001';
        END IF;
    END LOOP;

    INSERT INTO medusa.network (name, document)
    VALUES (request->>'network', request->>'document')
    ON CONFLICT (name) DO UPDATE SET document = excluded.document, deployed_at = clock_timestamp()
    WHERE network.document <> excluded.document;
    INSERT INTO medusa.plan (id, network, document)
    VALUES (request->>'plan', request->>'network', request->>'plan_document')
    ON CONFLICT (id) DO NOTHING;
    IF (SELECT (network, document) IS DISTINCT FROM
            (request->>'network', request->>'plan_document')
        FROM medusa.plan WHERE id = request->>'plan')
    THEN
        RAISE EXCEPTION 'plan % exists with another document: a plan is named by its fingerprint',
            request->>'plan' USING ERRCODE = 'MD001';
    END IF;

    FOR wanted IN SELECT * FROM jsonb_to_recordset(request->'fragments')
        AS w (id text, inputs text[], outputs text[])
    LOOP
        SELECT n.name INTO stands FROM unnest(wanted.inputs || wanted.outputs) AS n (name)
        WHERE NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = n.name) LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'fragment % names stream %, which is not declared: declare it',
                wanted.id, stands.name USING ERRCODE = 'MD001';
        END IF;
        SELECT i.name AS input, o.name AS output INTO stands
        FROM medusa.stream AS i, medusa.stream AS o
        WHERE i.name = ANY (wanted.inputs) AND o.name = ANY (wanted.outputs)
            AND o.width_us % i.width_us <> 0 LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'the buckets of % are no multiple of those of its input %: '
                'choose another width', stands.output, stands.input USING ERRCODE = 'MD001';
        END IF;
        -- An import writes a line of its own of what others compute.
        SELECT id INTO stands FROM medusa.fragment AS f
        WHERE f.id <> wanted.id AND f.outputs && wanted.outputs
            AND f.id NOT LIKE 'import/%' AND wanted.id NOT LIKE 'import/%' LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'fragment % writes a stream that % writes already: rename the output',
                wanted.id, stands.id USING ERRCODE = 'MD001';
        END IF;
        SELECT network INTO stands FROM medusa.fragment AS f
        WHERE f.id = wanted.id AND f.network <> request->>'network';
        IF FOUND THEN
            RAISE EXCEPTION 'fragment % belongs to network %: rename it or its source',
                wanted.id, stands.network USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa.fragment (id, network, inputs, outputs)
        VALUES (wanted.id, request->>'network', wanted.inputs, wanted.outputs)
        ON CONFLICT (id) DO UPDATE SET inputs = excluded.inputs, outputs = excluded.outputs
        WHERE (fragment.inputs, fragment.outputs) <> (excluded.inputs, excluded.outputs);
        -- A new output gets a line of everybody who was ever assigned, not of the next one only.
        INSERT INTO medusa.stream_producer (stream, participant, replica)
        SELECT DISTINCT output, a.participant, a.replica
        FROM medusa.assignment AS a, unnest(wanted.outputs) AS output
        WHERE a.fragment = wanted.id AND (a.replica = -1 OR wanted.id NOT LIKE 'import/%')
            AND NOT EXISTS (
                SELECT FROM medusa.stream_producer AS p
                WHERE (p.stream, p.participant, p.replica) = (output, a.participant, a.replica));
    END LOOP;

    FOR wanted IN SELECT * FROM jsonb_to_recordset(request->'assignments') AS w
        (fragment text, partition integer, epoch bigint, participant text, replica integer,
         plan text, from_us bigint)
    LOOP
        SELECT * INTO stands FROM medusa.fragment AS f WHERE f.id = wanted.fragment;
        IF NOT FOUND OR NOT EXISTS (SELECT FROM medusa.plan AS p WHERE p.id = wanted.plan) THEN
            RAISE EXCEPTION 'the assignment of % names a fragment or plan that is not deployed: '
                'deploy it first', wanted.fragment USING ERRCODE = 'MD001';
        END IF;
        IF wanted.partition < 0 OR wanted.replica < -1
            OR wanted.replica = -1 AND wanted.fragment NOT LIKE 'import/%'
        THEN
            RAISE EXCEPTION 'the assignment of % has a negative partition or replica: count from 0',
                wanted.fragment USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa.participant (name) VALUES (wanted.participant) ON CONFLICT DO NOTHING;
        -- Looked for first: ON CONFLICT would wait for a commit that is updating the line.
        INSERT INTO medusa.stream_producer (stream, participant, replica)
        SELECT output, wanted.participant, wanted.replica FROM unnest(stands.outputs) AS output
        WHERE (wanted.replica = -1 OR wanted.fragment NOT LIKE 'import/%') AND NOT EXISTS (
            SELECT FROM medusa.stream_producer AS p
            WHERE (p.stream, p.participant, p.replica) =
                (output, wanted.participant, wanted.replica));
        CONTINUE WHEN EXISTS (
            SELECT FROM medusa.assignment AS a
            WHERE (a.fragment, a.partition, a.epoch) =
                    (wanted.fragment, wanted.partition, wanted.epoch)
                AND (a.participant, a.replica, a.plan, a.from_us) IS NOT DISTINCT FROM
                    (wanted.participant, wanted.replica, wanted.plan, wanted.from_us));
        SELECT coalesce(max(a.epoch), 0) INTO last FROM medusa.assignment AS a
        WHERE (a.fragment, a.partition) = (wanted.fragment, wanted.partition);
        IF wanted.epoch <> last + 1 THEN
            RAISE EXCEPTION 'epoch % of fragment % is not the next one: the log is at %, '
                'read again and decide again', wanted.epoch, wanted.fragment, last
                USING ERRCODE = 'MD002';
        END IF;
        INSERT INTO medusa.assignment
            (fragment, partition, epoch, participant, replica, plan, from_us)
        VALUES (wanted.fragment, wanted.partition, wanted.epoch, wanted.participant,
            wanted.replica, wanted.plan, wanted.from_us);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.deploy(jsonb) IS
    'Bring streams, network, plan, fragments and assignments in; the same again is nothing.';
