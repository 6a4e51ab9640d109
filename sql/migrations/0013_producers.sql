-- Several producers of one stream: each is a replica with a line of its own, and what a home has
-- chosen among them is one more line, the import's, under the replica number -1.

ALTER TABLE medusa.assignment DROP CONSTRAINT assignment_replica_check;
ALTER TABLE medusa.assignment ADD CONSTRAINT assignment_replica_check CHECK (replica >= -1);
ALTER TABLE medusa.stream_producer DROP CONSTRAINT stream_producer_replica_check;
ALTER TABLE medusa.stream_producer
    ADD CONSTRAINT stream_producer_replica_check CHECK (replica >= -1);
ALTER TABLE medusa.certificate DROP CONSTRAINT certificate_replica_check;
ALTER TABLE medusa.certificate ADD CONSTRAINT certificate_replica_check CHECK (replica >= -1);
COMMENT ON COLUMN medusa.stream_producer.replica IS
    'Counted from 0; -1 is the import''s line: what this home has chosen among the others.';

ALTER TABLE medusa.stream_producer ADD COLUMN compared_us bigint;
COMMENT ON COLUMN medusa.stream_producer.compared_us IS
    'Final rows before it have been compared with those of other producers; NULL: none has.';

ALTER TABLE medusa.stream_promise ADD COLUMN verify_count integer NOT NULL DEFAULT 1;
ALTER TABLE medusa.stream_promise
    ADD CONSTRAINT verify_count_is_above_zero CHECK (verify_count > 0);
COMMENT ON COLUMN medusa.stream_promise.verify_count IS
    'How many producers must have equal rows before they are final for readers here.';

CREATE TABLE medusa.divergence (
    divergence_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream            text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    bucket_us         bigint NOT NULL,
    plan              text COLLATE "C" NOT NULL REFERENCES medusa.plan,
    participant       text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica           integer NOT NULL CHECK (replica >= 0),
    version           bigint NOT NULL CHECK (version >= 0),
    rows              bigint NOT NULL CHECK (rows >= 0),
    sum_a             numeric(50,0) NOT NULL,
    sum_b             numeric(50,0) NOT NULL,
    other_participant text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    other_replica     integer NOT NULL CHECK (other_replica >= 0),
    other_version     bigint NOT NULL CHECK (other_version >= 0),
    other_rows        bigint NOT NULL CHECK (other_rows >= 0),
    other_sum_a       numeric(50,0) NOT NULL,
    other_sum_b       numeric(50,0) NOT NULL,
    noticed_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (stream, bucket_us, plan, participant, replica, version, other_participant,
        other_replica, other_version),
    CONSTRAINT divergence_is_of_two
        CHECK ((participant, replica) <> (other_participant, other_replica)),
    CONSTRAINT divergence_is_one
        CHECK ((rows, sum_a, sum_b) <> (other_rows, other_sum_a, other_sum_b))
);
COMMENT ON TABLE medusa.divergence IS
    'Two producers have different final rows in a bucket under one plan; insert-only. From that '
    'bucket on nothing of the stream becomes final here until it is settled.';
COMMENT ON COLUMN medusa.divergence.version IS 'Of the row that was compared; 0: there is none.';
COMMENT ON COLUMN medusa.divergence.rows IS 'With the two sums: the digest of the bucket.';
REVOKE ALL ON medusa.divergence FROM PUBLIC;
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.divergence
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.chosen_through(stream text) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(coalesce((
        SELECT t.from_us FROM medusa.segment AS t
        WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        ORDER BY t.to_us LIMIT 1), p.boundary_us, -9223372036854775808))
    FROM medusa.stream_producer AS p
    WHERE p.stream = chosen_through.stream AND p.replica = -1
$$;
COMMENT ON FUNCTION medusa.chosen_through(text) IS
    'Up to where what is read of a stream''s producers is final here; NULL: there is no choice.';
REVOKE ALL ON FUNCTION medusa.chosen_through(text) FROM PUBLIC;

CREATE OR REPLACE FUNCTION medusa.check_trim(old medusa.stream_producer, new medusa.stream_producer)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    width bigint;
    other record;
BEGIN
    IF new.trimmed_us IS NULL OR new.trimmed_us < old.trimmed_us THEN
        RAISE EXCEPTION '% is trimmed before % and what is gone stays gone: give % or later',
            old.stream, old.trimmed_us, old.trimmed_us USING ERRCODE = 'MDS07';
    END IF;
    -- An older snapshot would not show a hold that was placed since.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION '% cannot be trimmed from a snapshot: trim in a READ COMMITTED transaction',
            old.stream USING ERRCODE = 'MDS07';
    END IF;
    -- Nobody places a hold on the stream from here on until this transaction has ended. It has the
    -- lock of the line, for which commits wait: it must not wait itself (trim_line did before).
    PERFORM FROM medusa.stream_order AS o WHERE o.stream = old.stream
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a hold on % is being placed: trim again when that has ended', old.stream
            USING ERRCODE = 'MD002';
    END IF;
    SELECT s.width_us INTO width FROM medusa.stream AS s WHERE s.name = old.stream;
    IF new.trimmed_us % width <> 0 THEN
        RAISE EXCEPTION '% cannot be trimmed before %, off its grid: give a multiple of % us',
            old.stream, new.trimmed_us, width USING ERRCODE = 'MD001';
    END IF;
    IF (new.trimmed_us <= least(new.boundary_us, new.end_us)) IS NOT TRUE THEN
        RAISE EXCEPTION '% reaches to % only: trim no further', old.stream,
            least(new.boundary_us, new.end_us) USING ERRCODE = 'MDS07';
    END IF;
    SELECT t.from_us INTO other FROM medusa.segment AS t
    WHERE t.line_id = old.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
    ORDER BY t.to_us LIMIT 1;
    IF other.from_us < new.trimmed_us THEN
        RAISE EXCEPTION '% is tentative from % on: trim no further before it is corrected',
            old.stream, other.from_us USING ERRCODE = 'MDS07';
    END IF;
    IF old.replica >= 0 AND medusa.chosen_through(old.stream) < new.trimmed_us THEN
        RAISE EXCEPTION '% has been chosen to % only of its producers: trim no further', old.stream,
            medusa.chosen_through(old.stream) USING ERRCODE = 'MDS07';
    END IF;
    SELECT h.holder, h.purpose, h.from_us INTO other FROM medusa.hold AS h
    WHERE h.stream = old.stream AND h.from_us < new.trimmed_us AND medusa.is_held(h)
    ORDER BY h.from_us LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% is held from % on by % (%): trim no further', old.stream, other.from_us,
            other.holder, other.purpose USING ERRCODE = 'MDS07';
    END IF;
END $$;

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
            RAISE EXCEPTION 'stream % stands with another shape (kind, width, columns or key): '
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
        RAISE EXCEPTION 'plan % stands with another document: a plan is named by its fingerprint',
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
            RAISE EXCEPTION 'epoch % of fragment % is not the next one: the log stands at %, '
                'read again and decide anew', wanted.epoch, wanted.fragment, last
                USING ERRCODE = 'MD002';
        END IF;
        INSERT INTO medusa.assignment
            (fragment, partition, epoch, participant, replica, plan, from_us)
        VALUES (wanted.fragment, wanted.partition, wanted.epoch, wanted.participant,
            wanted.replica, wanted.plan, wanted.from_us);
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION medusa.commit_step(request jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    forever CONSTANT bigint := 9223372036854775807;
    asked    record;
    made     medusa.commit;
    line     record;
    part     record;
    old      record;
    parts    jsonb;
    olds     bigint[];
    clock    timestamptz;
    chain    bytea;
    past_us  bigint;
    begin_us bigint;
    at_us    bigint;
    end_at   bigint;
    old_id   bigint;
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (
        key text, fragment text, partition integer, participant text, replica integer,
        lane medusa.lane, epoch bigint, holder text, plan text, cause medusa.cause, ends boolean,
        streams jsonb, lineage jsonb, quarantine jsonb, metrics jsonb);

    -- 1 The same key committed before? Its answer again.
    SELECT * INTO made FROM medusa.commit AS c WHERE c.key = asked.key;
    IF FOUND THEN
        RETURN medusa.answer(made, true);
    END IF;

    -- 2 Lock the lease (S8). Who had it may have committed this very key before letting go.
    PERFORM FROM medusa.lease AS l
    WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane) =
        (asked.fragment, asked.partition, asked.participant, asked.replica, asked.lane)
    FOR UPDATE;
    SELECT * INTO made FROM medusa.commit AS c WHERE c.key = asked.key;
    IF FOUND THEN
        RETURN medusa.answer(made, true);
    END IF;
    PERFORM medusa.check_lease(asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.holder);
    -- What is imported was computed under its producer's plan, whichever that is.
    IF NOT EXISTS (SELECT FROM medusa.assignment AS a
        WHERE a.fragment = asked.fragment AND a.partition = asked.partition
            AND a.plan = asked.plan AND a.epoch <= asked.epoch)
        AND NOT (asked.replica = -1 AND asked.cause = 'import'
            AND EXISTS (SELECT FROM medusa.plan AS p WHERE p.id = asked.plan))
    THEN
        RAISE EXCEPTION 'fragment % was never assigned under plan %: deploy the plan first',
            asked.fragment, asked.plan USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.check_writes(asked.fragment, stream)
    FROM jsonb_object_keys(asked.streams) AS stream;
    -- The columns would round a sum in silence.
    IF EXISTS (
        SELECT FROM jsonb_each(asked.streams) AS s (stream, parts),
            jsonb_to_recordset(s.parts) AS r (sum_a numeric[], sum_b numeric[]),
            unnest(r.sum_a || r.sum_b) AS n
        WHERE n <> trunc(n))
    THEN
        RAISE EXCEPTION 'fragment % gives a sum of hashes that is no integer: give it exactly',
            asked.fragment USING ERRCODE = 'MD001';
    END IF;

    -- 3 Lock the lines in one order and number them.
    SELECT jsonb_object_agg(l.stream, l.last_version + 1), min(l.from_us), max(l.to_us)
    INTO made.versions, made.from_us, made.to_us
    FROM (
        SELECT p.stream, p.last_version,
            (SELECT min((s->>'from_us')::bigint) FROM jsonb_array_elements(asked.streams->p.stream) s)
                AS from_us,
            (SELECT max((s->>'to_us')::bigint) FROM jsonb_array_elements(asked.streams->p.stream) s)
                AS to_us
        FROM medusa.stream_producer AS p
        WHERE p.stream IN (SELECT jsonb_object_keys(asked.streams))
            AND (p.participant, p.replica) = (asked.participant, asked.replica)
        ORDER BY p.stream
        FOR UPDATE OF p
    ) AS l;
    PERFORM medusa.refuse_without_line(stream, asked.participant, asked.replica)
    FROM jsonb_object_keys(asked.streams) AS stream
    WHERE (made.versions ? stream) IS NOT TRUE;
    -- The lines may have been waited for: the lease may have ended, or a newer epoch come (S8).
    clock := medusa.check_lease(asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.holder);
    INSERT INTO medusa.commit (key, fragment, partition, participant, replica, lane, epoch, plan,
        cause, from_us, to_us, versions, committed_at)
    VALUES (asked.key, asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.plan, asked.cause, made.from_us, made.to_us, made.versions,
        clock)
    RETURNING * INTO made;

    FOR line IN
        SELECT p.*, s.width_us, (made.versions->>p.stream)::bigint AS version
        FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
        WHERE p.stream IN (SELECT jsonb_object_keys(asked.streams))
            AND (p.participant, p.replica) = (asked.participant, asked.replica)
        ORDER BY p.stream
    LOOP
        parts := asked.streams->line.stream;

        -- 4 Supersede overlapped tentative rows; what is final stays (S2, S3).
        past_us := NULL;
        begin_us := NULL;
        olds := '{}';
        FOR part IN
            SELECT * FROM jsonb_to_recordset(parts) AS r
                (from_us bigint, to_us bigint, stability medusa.stability)
            ORDER BY r.from_us, r.to_us
        LOOP
            IF part.from_us % line.width_us <> 0 OR part.to_us % line.width_us <> 0 THEN
                RAISE EXCEPTION 'segment [%, %) of % is not on its grid: give multiples of % us',
                    part.from_us, part.to_us, line.stream, line.width_us USING ERRCODE = 'MD001';
            END IF;
            IF part.from_us < past_us THEN
                RAISE EXCEPTION 'segment [%, %) of % overlaps another of the same commit: '
                    'cut them apart', part.from_us, part.to_us, line.stream
                    USING ERRCODE = 'MD001';
            END IF;
            IF part.from_us < line.origin_us OR part.to_us > line.end_us THEN
                RAISE EXCEPTION 'segment [%, %) of % lies outside of its life [%, %): '
                    'compute what lies inside', part.from_us, part.to_us, line.stream,
                    line.origin_us, coalesce(line.end_us::text, 'open') USING ERRCODE = 'MD001';
            END IF;
            begin_us := coalesce(begin_us, part.from_us);
            past_us := part.to_us;
            -- Live rows do not overlap: all that end inside, and at most one that ends behind.
            FOR old IN
                SELECT s.segment_id, s.stability, s.from_us, s.to_us FROM medusa.segment AS s
                WHERE s.line_id = line.line_id AND s.end_version IS NULL
                    AND s.to_us > part.from_us AND s.to_us < part.to_us
                UNION ALL
                SELECT * FROM (
                    SELECT s.segment_id, s.stability, s.from_us, s.to_us FROM medusa.segment AS s
                    WHERE s.line_id = line.line_id AND s.end_version IS NULL
                        AND s.to_us >= part.to_us
                    ORDER BY s.to_us LIMIT 1
                ) AS last
                WHERE last.from_us < part.to_us
            LOOP
                IF old.stability <> 'tentative' OR part.stability = 'tentative' THEN
                    RAISE EXCEPTION 'segment [%, %) of % stands as % over [%, %): '
                        'read again and decide anew', part.from_us, part.to_us, line.stream,
                        old.stability, old.from_us, old.to_us USING ERRCODE = 'MD002';
                END IF;
                IF old.segment_id <> ALL (olds) THEN
                    olds := olds || old.segment_id;
                END IF;
            END LOOP;
        END LOOP;
        FOREACH old_id IN ARRAY olds LOOP
            PERFORM medusa.supersede(old_id, line.version, parts);
        END LOOP;

        -- 5 Write segments and files, and move the boundary (S1).
        INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version,
            plan, commit_id, age_ms, missing, bucket_us, bucket_rows, sum_a, sum_b, file_ids)
        SELECT line.line_id, r.from_us, r.to_us, r.stability, line.version, line.version,
            asked.plan, made.commit_id, greatest(medusa.to_ms(clock) - r.fresh_ms, 0), r.missing,
            r.bucket_us, r.bucket_rows, r.sum_a, r.sum_b,
            medusa.record_files(line.stream, r.files)
        FROM jsonb_to_recordset(parts) AS r
            (from_us bigint, to_us bigint, stability medusa.stability, fresh_ms bigint,
             missing text[], bucket_us bigint[], bucket_rows bigint[], sum_a numeric[],
             sum_b numeric[], files jsonb);
        at_us := coalesce(line.boundary_us, begin_us);
        LOOP
            SELECT s.from_us, s.to_us INTO old FROM medusa.segment AS s
            WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us > at_us
            ORDER BY s.to_us LIMIT 1;
            EXIT WHEN NOT FOUND OR old.from_us > at_us;
            at_us := old.to_us;
        END LOOP;
        end_at := line.end_us;
        IF asked.ends AND at_us < forever THEN
            IF FOUND OR at_us < end_at THEN
                RAISE EXCEPTION 'stream % cannot end at %: compute what is missing before its end',
                    line.stream, at_us USING ERRCODE = 'MD001';
            END IF;
            end_at := at_us;
        END IF;
        UPDATE medusa.stream_producer AS p
        SET last_version = line.version,
            origin_us = coalesce(p.origin_us, begin_us),
            boundary_us = CASE WHEN at_us >= end_at THEN forever ELSE at_us END,
            end_us = end_at
        WHERE p.line_id = line.line_id;
        -- Whatever may differ when the same is computed again stays out of the chain.
        SELECT medusa.chain_at(line.line_id, line.last_version) || sha256(convert_to(
            made.key || jsonb_agg(p - '{files,fresh_ms}'::text[])::text, 'UTF8'))
        INTO chain FROM jsonb_array_elements(parts) AS p;
        INSERT INTO medusa.line_version (line_id, version, chain)
        VALUES (line.line_id, line.version, sha256(chain));
    END LOOP;
    INSERT INTO medusa.lineage (commit_id, output, position, input, participant, replica, from_us,
        to_us, read_version, drop_rate, content)
    SELECT made.commit_id, r.* FROM ROWS FROM (jsonb_to_recordset(asked.lineage) AS
        (output text, position integer, input text, participant text, replica integer,
         from_us bigint, to_us bigint, read_version bigint, drop_rate double precision,
         content text)) AS r;
    PERFORM medusa.put_aside(asked.quarantine, made.commit_id, NULL);
    INSERT INTO medusa.step_metrics (commit_id, records_in, records_out, spark_jobs, phases_ms)
    SELECT made.commit_id, m.* FROM jsonb_to_record(asked.metrics) AS m
        (records_in bigint, records_out bigint, spark_jobs integer, phases_ms jsonb);

    PERFORM pg_notify('medusa_progress', '');  -- heard after the commit, several as one
    RETURN medusa.answer(made, false);
END $$;

CREATE FUNCTION medusa.declare_verify(stream text, verify_count integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = declare_verify.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: deploy its network first',
            declare_verify.stream USING ERRCODE = 'MD001';
    END IF;
    IF (declare_verify.verify_count > 0) IS NOT TRUE THEN
        RAISE EXCEPTION 'stream % cannot be verified by % producers: give 1 or more',
            declare_verify.stream, declare_verify.verify_count USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_promise AS p (stream, verify_count)
    VALUES (declare_verify.stream, declare_verify.verify_count)
    ON CONFLICT ON CONSTRAINT stream_promise_pkey DO UPDATE
    SET verify_count = excluded.verify_count, declared_at = clock_timestamp()
    WHERE p.verify_count <> excluded.verify_count;
END $$;
COMMENT ON FUNCTION medusa.declare_verify(text, integer) IS
    'Say how many producers must agree before a row is final here; the same again is nothing.';
REVOKE ALL ON FUNCTION medusa.declare_verify(text, integer) FROM PUBLIC;

CREATE FUNCTION medusa.commit_choice(request jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    forever CONSTANT bigint := 9223372036854775807;
    asked  record;
    line   medusa.stream_producer;
    one    record;
    answer jsonb;
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (
        fragment text, partition integer, participant text, replica integer, lane medusa.lane,
        epoch bigint, holder text, stream text, commits jsonb, divergences jsonb, compared jsonb,
        end_us bigint);

    -- 1 Lock the lease (S8), which is of this stream's import.
    PERFORM medusa.check_lease(asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.holder);
    IF (asked.fragment = 'import/' || asked.stream AND asked.replica = -1) IS NOT TRUE THEN
        RAISE EXCEPTION 'fragment % does not choose among the producers of %: take the lease of '
            'import/%', asked.fragment, asked.stream, asked.stream USING ERRCODE = 'MD001';
    END IF;

    -- 2 Commit the rows.
    FOR one IN
        SELECT w.value AS request FROM jsonb_array_elements(asked.commits) WITH ORDINALITY AS w
        ORDER BY w.ordinality
    LOOP
        IF (one.request->>'fragment', one.request->>'cause')
            IS DISTINCT FROM (asked.fragment, 'import')
        THEN
            RAISE EXCEPTION 'a choice of % holds a commit of %: commit that by itself',
                asked.fragment, one.request->>'fragment' USING ERRCODE = 'MD001';
        END IF;
        answer := medusa.commit_step(one.request);
    END LOOP;
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) = (asked.stream, asked.participant, -1)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(asked.stream, asked.participant, -1);
    END IF;

    -- 3 Note divergences.
    INSERT INTO medusa.divergence (stream, bucket_us, plan, participant, replica, version, rows,
        sum_a, sum_b, other_participant, other_replica, other_version, other_rows, other_sum_a,
        other_sum_b)
    SELECT asked.stream, d.* FROM jsonb_to_recordset(asked.divergences) AS d (
        bucket_us bigint, plan text, participant text, replica integer, version bigint,
        rows bigint, sum_a numeric, sum_b numeric, other_participant text, other_replica integer,
        other_version bigint, other_rows bigint, other_sum_a numeric, other_sum_b numeric)
    ON CONFLICT DO NOTHING;

    -- 4 Move how far lines have been compared.
    UPDATE medusa.stream_producer AS p
    SET compared_us = greatest(p.compared_us, c.compared_us)
    FROM jsonb_to_recordset(asked.compared) AS c
        (participant text, replica integer, compared_us bigint)
    WHERE (p.stream, p.participant, p.replica) = (asked.stream, c.participant, c.replica);

    -- 5 End the line (S1).
    IF asked.end_us IS NOT NULL AND line.end_us IS NULL THEN
        IF line.boundary_us IS DISTINCT FROM asked.end_us THEN
            RAISE EXCEPTION 'stream % cannot end at % here, it stands at %: read again and decide '
                'anew', asked.stream, asked.end_us, line.boundary_us USING ERRCODE = 'MD002';
        END IF;
        UPDATE medusa.stream_producer AS p SET end_us = asked.end_us, boundary_us = forever
        WHERE p.line_id = line.line_id;
    END IF;
    PERFORM pg_notify('medusa_progress', '');
    RETURN answer;
END $$;
COMMENT ON FUNCTION medusa.commit_choice(jsonb) IS
    'What was chosen among a stream''s producers, and found out with it: the numbers are those of '
    'the interface.';
REVOKE ALL ON FUNCTION medusa.commit_choice(jsonb) FROM PUBLIC;

CREATE OR REPLACE FUNCTION medusa.trim_line(
    stream text, participant text, replica integer, before_us bigint, needed jsonb,
    segments_max integer, explain boolean
) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    line    medusa.stream_producer;
    width   bigint;
    readers text[];
    at_us   bigint;
    stop    record;
    answer  jsonb;
BEGIN
    -- 1 Wait until no hold is being placed, so that none is meanwhile; only then lock the line.
    BEGIN
        PERFORM FROM medusa.stream_order AS o WHERE o.stream = trim_line.stream FOR NO KEY UPDATE;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'a hold on % is being placed: trim again when that has ended',
            trim_line.stream USING ERRCODE = 'MD002';
    END;
    SELECT s.width_us INTO width FROM medusa.stream AS s WHERE s.name = trim_line.stream;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stream % is not deployed here: trim one that is', trim_line.stream
            USING ERRCODE = 'MD001';
    END IF;
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (trim_line.stream, trim_line.participant, trim_line.replica)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(trim_line.stream, trim_line.participant,
            trim_line.replica);
    END IF;

    BEGIN
        -- 2 Hold what this home's own fragments need; one that does not say needs everything.
        SELECT coalesce(array_agg(DISTINCT n.fragment), '{}') INTO readers
        FROM (
            SELECT DISTINCT ON (a.fragment, a.partition, a.replica) a.fragment, a.participant
            FROM medusa.assignment AS a JOIN medusa.fragment AS f ON f.id = a.fragment
            WHERE trim_line.stream = ANY (f.inputs)
            ORDER BY a.fragment, a.partition, a.replica, a.epoch DESC
        ) AS n JOIN medusa.home AS h ON h.participant = n.participant;
        DELETE FROM medusa.hold AS h
        WHERE h.stream = trim_line.stream AND h.purpose = 'progress' AND h.holder <> ALL (readers);
        INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us)
        SELECT trim_line.stream, r, 'progress', (trim_line.needed->>r)::bigint
        FROM unnest(readers) AS r WHERE trim_line.needed ? r
        ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
        SET from_us = excluded.from_us, limit_ms = NULL, placed_at = clock_timestamp()
        WHERE (h.from_us, h.limit_ms) IS DISTINCT FROM (excluded.from_us, NULL::bigint);
        INSERT INTO medusa.hold (stream, holder, purpose, from_us)
        SELECT trim_line.stream, r, 'progress', -9223372036854775808 FROM unnest(readers) AS r
        ON CONFLICT ON CONSTRAINT hold_pkey DO NOTHING;

        -- 3 Find how far it may go, and what stops it there.
        SELECT s.* INTO stop FROM (
            (SELECT h.from_us, h.holder, h.purpose, h.placed_at, h.limit_ms FROM medusa.hold AS h
            WHERE h.stream = trim_line.stream AND medusa.is_held(h)
            ORDER BY h.from_us, h.holder, h.purpose LIMIT 1)
            UNION ALL
            (SELECT t.from_us, NULL, 'tentative', NULL, NULL FROM medusa.segment AS t
            WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
            ORDER BY t.to_us LIMIT 1)
            UNION ALL
            SELECT coalesce(least(line.boundary_us, line.end_us), -9223372036854775808), NULL,
                'boundary', NULL, NULL
            UNION ALL
            SELECT medusa.chosen_through(line.stream), NULL, 'choice', NULL, NULL
            WHERE line.replica >= 0 AND medusa.chosen_through(line.stream) IS NOT NULL
        ) AS s
        ORDER BY s.from_us, s.purpose, s.holder LIMIT 1;
        at_us := least(trim_line.before_us, stop.from_us);
        IF at_us > line.origin_us AND at_us > coalesce(line.trimmed_us, line.origin_us) THEN
            at_us := at_us - ((at_us % width) + width) % width;  -- down, below zero too
            IF at_us > coalesce(line.trimmed_us, line.origin_us) THEN
                UPDATE medusa.stream_producer AS p SET trimmed_us = at_us
                WHERE p.line_id = line.line_id;
            END IF;
        END IF;

        -- 4 Remove what is trimmed now, or was and is still there.
        answer := jsonb_build_object('from_us', line.trimmed_us, 'held_by', CASE
            WHEN stop.from_us < trim_line.before_us THEN jsonb_build_object(
                'holder', stop.holder, 'purpose', stop.purpose, 'from_us', stop.from_us,
                'since_ms', medusa.to_ms(stop.placed_at), 'limit_ms', stop.limit_ms) END);
        SELECT p.* INTO line FROM medusa.stream_producer AS p WHERE p.line_id = line.line_id;
        answer := answer || jsonb_build_object('trimmed_us', line.trimmed_us)
            || medusa.remove_trimmed(line, trim_line.segments_max);
        IF trim_line.explain THEN
            RAISE EXCEPTION 'only asked for' USING ERRCODE = 'MDASK';
        END IF;
    EXCEPTION WHEN SQLSTATE 'MDASK' THEN
        NULL;  -- what was done in this block is undone
    END;
    RETURN answer;
END $$;

CREATE VIEW medusa_api.divergences WITH (security_invoker = true) AS
SELECT divergence_id, stream, bucket_us, plan, participant, replica, version, rows, sum_a, sum_b,
    other_participant, other_replica, other_version, other_rows, other_sum_a, other_sum_b,
    noticed_at
FROM medusa.divergence;
COMMENT ON VIEW medusa_api.divergences IS 'Where producers of a stream disagree: those not settled.';

CREATE VIEW medusa_api.disputed WITH (security_invoker = true) AS
WITH RECURSIVE disputed AS (
    SELECT d.stream, min(d.bucket_us) AS from_us FROM medusa_api.divergences AS d GROUP BY d.stream
    UNION
    SELECT s.name, d.from_us - ((d.from_us % s.width_us) + s.width_us) % s.width_us
    FROM disputed AS d
    JOIN medusa.fragment AS f ON d.stream = ANY (f.inputs)
    JOIN medusa.stream AS s ON s.name = ANY (f.outputs)
)
SELECT d.stream, min(d.from_us) AS from_us FROM disputed AS d GROUP BY d.stream;
COMMENT ON VIEW medusa_api.disputed IS
    'From which bucket on streams are disputed: those whose producers disagree, and what is '
    'computed from them here.';

REVOKE ALL ON medusa_api.divergences, medusa_api.disputed FROM PUBLIC;

CREATE FUNCTION medusa.grant_choices_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text;
    role text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'analyst', 'airflow'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT SELECT ON medusa.divergence, medusa.fragment, medusa_api.divergences, '
            'medusa_api.disputed TO %I', role);
        IF kind <> 'analyst' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.declare_verify TO %I', role);
        END IF;
        IF kind = 'job' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.commit_choice TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_choices_to_roles() IS
    'Jobs choose among producers; they, Airflow and analysts see where producers disagree.';
REVOKE ALL ON FUNCTION medusa.grant_choices_to_roles() FROM PUBLIC;
SELECT medusa.grant_choices_to_roles();
