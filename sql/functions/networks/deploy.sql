CREATE OR REPLACE FUNCTION medusa.deploy(request jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    declared record;
    existing record;
    last   bigint;
BEGIN
    -- Deployments of one home come one after the other.
    PERFORM FROM medusa.home FOR UPDATE;

    FOR declared IN SELECT * FROM jsonb_to_recordset(request->'streams')
        AS w (name text, kind text, width_us bigint, columns jsonb, key_columns text[])
    LOOP
        SELECT * INTO existing FROM medusa.stream WHERE name = declared.name;
        IF NOT FOUND THEN
            INSERT INTO medusa.stream (name, kind, width_us, columns, key_columns) VALUES
                (declared.name, declared.kind, declared.width_us, declared.columns, declared.key_columns);
            IF request->>'kept_ms' IS NOT NULL THEN
                PERFORM medusa.declare_retention(declared.name, (request->>'kept_ms')::bigint);
            END IF;
        ELSIF (existing.kind, existing.width_us, existing.columns, existing.key_columns) IS DISTINCT FROM
            (declared.kind, declared.width_us, declared.columns, declared.key_columns)
        THEN
            RAISE EXCEPTION 'stream % exists with another shape (kind, width, columns or key): '
                'give the new one another name', declared.name USING ERRCODE = 'MD001';
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

    FOR declared IN SELECT * FROM jsonb_to_recordset(request->'fragments')
        AS w (id text, inputs text[], outputs text[], starts_us bigint)
    LOOP
        SELECT n.name INTO existing FROM unnest(declared.inputs || declared.outputs) AS n (name)
        WHERE NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = n.name) LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'fragment % names stream %, which is not declared: declare it',
                declared.id, existing.name USING ERRCODE = 'MD001';
        END IF;
        SELECT i.name AS input, o.name AS output INTO existing
        FROM medusa.stream AS i, medusa.stream AS o
        WHERE i.name = ANY (declared.inputs) AND o.name = ANY (declared.outputs)
            AND o.width_us % i.width_us <> 0 LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'the buckets of % are no multiple of those of its input %: '
                'choose another width', existing.output, existing.input USING ERRCODE = 'MD001';
        END IF;
        -- An import writes a line of its own of what others compute, and so does a provider.
        SELECT id INTO existing FROM medusa.fragment AS f
        WHERE f.id <> declared.id AND f.outputs && declared.outputs
            AND f.id NOT SIMILAR TO '(import|moved)/%'
            AND declared.id NOT SIMILAR TO '(import|moved)/%' LIMIT 1;
        IF FOUND THEN
            RAISE EXCEPTION 'fragment % writes a stream that % writes already: rename the output',
                declared.id, existing.id USING ERRCODE = 'MD001';
        END IF;
        SELECT network INTO existing FROM medusa.fragment AS f
        WHERE f.id = declared.id AND f.network <> request->>'network';
        IF FOUND THEN
            RAISE EXCEPTION 'fragment % belongs to network %: rename it or its source',
                declared.id, existing.network USING ERRCODE = 'MD001';
        END IF;
        IF EXISTS (
            SELECT FROM medusa.stream AS s
            WHERE s.name = ANY (declared.outputs) AND declared.starts_us % s.width_us <> 0)
        THEN
            RAISE EXCEPTION 'fragment % starts at %, which is no bucket of its outputs: start with one',
                declared.id, declared.starts_us USING ERRCODE = 'MD001';
        END IF;
        IF EXISTS (
            SELECT FROM medusa.fragment AS f
            WHERE f.id = declared.id AND f.starts_us IS DISTINCT FROM declared.starts_us)
        THEN
            RAISE EXCEPTION 'fragment % starts at another bucket: where it starts stays as it is',
                declared.id USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa.fragment (id, network, inputs, outputs, starts_us)
        VALUES (declared.id, request->>'network', declared.inputs, declared.outputs,
            declared.starts_us)
        ON CONFLICT (id) DO UPDATE SET inputs = excluded.inputs, outputs = excluded.outputs
        WHERE (fragment.inputs, fragment.outputs) <> (excluded.inputs, excluded.outputs);
        UPDATE medusa.fragment AS f SET stopped_at = NULL
        WHERE f.id = declared.id AND f.id LIKE 'import/%' AND f.stopped_at IS NOT NULL;
        -- A new output gets a line of everybody who was ever assigned, not of the next one only.
        INSERT INTO medusa.stream_producer (stream, participant, replica)
        SELECT DISTINCT output, a.participant, a.replica
        FROM medusa.assignment AS a, unnest(declared.outputs) AS output
        WHERE a.fragment = declared.id AND (a.replica = -1 OR declared.id NOT LIKE 'import/%')
            AND NOT EXISTS (
                SELECT FROM medusa.stream_producer AS p
                WHERE (p.stream, p.participant, p.replica) = (output, a.participant, a.replica));
    END LOOP;

    FOR declared IN SELECT * FROM jsonb_to_recordset(request->'assignments') AS w
        (fragment text, partition integer, epoch bigint, participant text, replica integer,
         plan text, from_us bigint)
    LOOP
        SELECT * INTO existing FROM medusa.fragment AS f WHERE f.id = declared.fragment;
        IF NOT FOUND OR NOT EXISTS (SELECT FROM medusa.plan AS p WHERE p.id = declared.plan) THEN
            RAISE EXCEPTION 'the assignment of % names a fragment or plan that is not deployed: '
                'deploy it first', declared.fragment USING ERRCODE = 'MD001';
        END IF;
        IF declared.partition < 0 OR declared.replica < -1
            OR declared.replica = -1 AND declared.fragment NOT LIKE 'import/%'
        THEN
            RAISE EXCEPTION 'the assignment of % has a negative partition or replica: count from 0',
                declared.fragment USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa.participant (name) VALUES (declared.participant) ON CONFLICT DO NOTHING;
        -- Looked for first: ON CONFLICT would wait for a commit that is updating the line.
        INSERT INTO medusa.stream_producer (stream, participant, replica)
        SELECT output, declared.participant, declared.replica FROM unnest(existing.outputs) AS output
        WHERE (declared.replica = -1 OR declared.fragment NOT LIKE 'import/%') AND NOT EXISTS (
            SELECT FROM medusa.stream_producer AS p
            WHERE (p.stream, p.participant, p.replica) =
                (output, declared.participant, declared.replica));
        CONTINUE WHEN EXISTS (
            SELECT FROM medusa.assignment AS a
            WHERE (a.fragment, a.partition, a.epoch) =
                    (declared.fragment, declared.partition, declared.epoch)
                AND (a.participant, a.replica, a.plan, a.from_us) IS NOT DISTINCT FROM
                    (declared.participant, declared.replica, declared.plan, declared.from_us));
        SELECT coalesce(max(a.epoch), 0) INTO last FROM medusa.assignment AS a
        WHERE (a.fragment, a.partition) = (declared.fragment, declared.partition);
        IF declared.epoch <> last + 1 THEN
            RAISE EXCEPTION 'epoch % of fragment % is not the next one: the log is at %, '
                'read again and decide again', declared.epoch, declared.fragment, last
                USING ERRCODE = 'MD002';
        END IF;
        INSERT INTO medusa.assignment
            (fragment, partition, epoch, participant, replica, plan, from_us)
        VALUES (declared.fragment, declared.partition, declared.epoch, declared.participant,
            declared.replica, declared.plan, declared.from_us);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.deploy(jsonb) IS
    'Bring streams, network, plan, fragments and assignments in; the same again is nothing.';
