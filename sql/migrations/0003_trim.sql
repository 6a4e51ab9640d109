-- Trim and compaction: buckets that no hold needs go, small files become one (S7).

ALTER TABLE medusa.stream_producer ADD COLUMN trimmed_us bigint;
ALTER TABLE medusa.stream_producer ADD CONSTRAINT line_is_trimmed_within_its_life CHECK (
    trimmed_us IS NULL
    OR (origin_us IS NOT NULL AND trimmed_us BETWEEN origin_us AND boundary_us));
COMMENT ON COLUMN medusa.stream_producer.trimmed_us IS
    'Everything of the line before it may be gone; NULL: nothing is.';

CREATE INDEX segment_files ON medusa.segment USING gin (file_ids) WITH (fastupdate = off)
    WHERE cardinality(file_ids) > 0;
COMMENT ON INDEX medusa.segment_files IS 'Which rows name a file.';
CREATE INDEX landed_batch_files ON medusa.landed_batch (file_id) WHERE file_id IS NOT NULL;
COMMENT ON INDEX medusa.landed_batch_files IS 'Batches whose file is kept.';
COMMENT ON COLUMN medusa.landed_batch.file_id IS
    'NULL: the batch had no usable record, or all its buckets are trimmed.';

DROP TRIGGER insert_only ON medusa.file;
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.file
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
DROP TRIGGER insert_only ON medusa.landed_batch;
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa.landed_batch
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
DROP TRIGGER no_delete ON medusa.segment;
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON medusa.segment
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.is_held(held medusa.hold) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT held.limit_ms IS NULL OR medusa.to_ms(held.placed_at)::numeric + held.limit_ms
        >= medusa.to_ms(clock_timestamp())
$$;
COMMENT ON FUNCTION medusa.is_held(medusa.hold) IS 'Whether a hold has not run out.';

CREATE FUNCTION medusa.check_trim(old medusa.stream_producer, new medusa.stream_producer)
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
    -- Nobody places a hold on the stream from here on until this transaction has ended.
    SELECT s.width_us INTO width FROM medusa.stream AS s WHERE s.name = old.stream
    FOR NO KEY UPDATE;
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
    SELECT h.holder, h.purpose, h.from_us INTO other FROM medusa.hold AS h
    WHERE h.stream = old.stream AND h.from_us < new.trimmed_us AND medusa.is_held(h)
    ORDER BY h.from_us LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% is held from % on by % (%): trim no further', old.stream, other.from_us,
            other.holder, other.purpose USING ERRCODE = 'MDS07';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_trim(medusa.stream_producer, medusa.stream_producer) IS
    'S7: nothing is trimmed under a hold, behind the boundary or before it is final.';

CREATE OR REPLACE FUNCTION medusa.guard_line() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (NEW.line_id, NEW.stream, NEW.participant, NEW.replica)
        IS DISTINCT FROM (OLD.line_id, OLD.stream, OLD.participant, OLD.replica)
    THEN
        RAISE EXCEPTION 'the line of % by %/% cannot become another: insert a new line',
            OLD.stream, OLD.participant, OLD.replica USING ERRCODE = 'MDS01';
    END IF;
    IF NEW.boundary_us < OLD.boundary_us
        OR (NEW.boundary_us IS NULL AND OLD.boundary_us IS NOT NULL)
    THEN
        RAISE EXCEPTION 'the boundary of % stands at % and never goes back: give % or later',
            OLD.stream, OLD.boundary_us, OLD.boundary_us USING ERRCODE = 'MDS01';
    END IF;
    IF NEW.promised_us < OLD.promised_us
        OR (NEW.promised_us IS NULL AND OLD.promised_us IS NOT NULL)
    THEN
        RAISE EXCEPTION 'source % has promised % and a promise never goes back: give % or later',
            OLD.stream, OLD.promised_us, OLD.promised_us USING ERRCODE = 'MDS01';
    END IF;
    IF OLD.origin_us IS NOT NULL AND NEW.origin_us IS DISTINCT FROM OLD.origin_us THEN
        RAISE EXCEPTION 'stream % begins at % for ever: give that origin', OLD.stream, OLD.origin_us
            USING ERRCODE = 'MDS01';
    END IF;
    IF OLD.end_us IS NOT NULL AND NEW.end_us IS DISTINCT FROM OLD.end_us THEN
        RAISE EXCEPTION 'stream % ends at % for ever: give that end', OLD.stream, OLD.end_us
            USING ERRCODE = 'MDS01';
    END IF;
    IF NEW.last_version < OLD.last_version THEN
        RAISE EXCEPTION 'the version of % stands at % and never goes back', OLD.stream,
            OLD.last_version USING ERRCODE = 'MDS01';
    END IF;
    IF NEW.trimmed_us IS DISTINCT FROM OLD.trimmed_us THEN
        PERFORM medusa.check_trim(OLD, NEW);
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_line() IS
    'S1: boundaries, promises and versions never go back. S7: see check_trim.';

CREATE FUNCTION medusa.check_files(
    stream text, from_us bigint, to_us bigint, file_ids bigint[]
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    bad bigint;
BEGIN
    -- Locked, like what a foreign key names: a file that is about to be named is not removed.
    PERFORM FROM medusa.file AS f WHERE f.file_id = ANY (check_files.file_ids) FOR KEY SHARE;
    SELECT id INTO bad FROM unnest(check_files.file_ids) AS id
    WHERE NOT EXISTS (SELECT FROM medusa.file AS f
        WHERE f.file_id = id AND f.stream = check_files.stream) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'segment [%, %) names file %, which is none of %: record the file first',
            check_files.from_us, check_files.to_us, bad, check_files.stream
            USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_files(text, bigint, bigint, bigint[]) IS
    'Raises unless the files are known and of the stream; they stay until the commit.';

CREATE OR REPLACE FUNCTION medusa.guard_segment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name  text;
    width bigint;
    gone  bigint;
    same  medusa.segment;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        same := OLD;
        same.bucket_count := NEW.bucket_count;  -- generated after this trigger
        same.row_count := NEW.row_count;
        IF OLD.stability <> 'tentative' THEN
            -- Compaction: the same rows in another file, which guard_compaction counts.
            same.file_ids := NEW.file_ids;
            IF OLD.end_version IS NULL AND same IS NOT DISTINCT FROM NEW
                AND cardinality(OLD.file_ids) > 0 AND cardinality(NEW.file_ids) = 1
            THEN
                SELECT p.stream INTO name FROM medusa.stream_producer AS p
                WHERE p.line_id = NEW.line_id;
                PERFORM medusa.check_files(name, NEW.from_us, NEW.to_us, NEW.file_ids);
                RETURN NEW;
            END IF;
            RAISE EXCEPTION 'segment [%, %) is % and never changes: compute another range, or recall it',
                OLD.from_us, OLD.to_us, OLD.stability USING ERRCODE = 'MDS02';
        END IF;
        same.end_version := NEW.end_version;
        IF OLD.end_version IS NOT NULL OR same IS DISTINCT FROM NEW THEN
            RAISE EXCEPTION 'segment [%, %) keeps its content: supersede it by a later version',
                OLD.from_us, OLD.to_us USING ERRCODE = 'MDS02';
        END IF;
        RETURN NEW;
    END IF;
    IF NEW.end_version IS NOT NULL THEN
        RAISE EXCEPTION 'segment [%, %) would be superseded before it was live: history is not made up',
            NEW.from_us, NEW.to_us USING ERRCODE = 'MDS02';
    END IF;
    SELECT s.name, s.width_us, p.trimmed_us INTO name, width, gone
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    WHERE p.line_id = NEW.line_id;
    IF NEW.from_us % width <> 0 OR NEW.to_us % width <> 0 THEN
        RAISE EXCEPTION 'segment [%, %) of % is not on its grid: give multiples of % us',
            NEW.from_us, NEW.to_us, name, width USING ERRCODE = 'MD001';
    END IF;
    IF NEW.from_us < gone THEN
        RAISE EXCEPTION 'segment [%, %) of % begins before %, where all was final and is trimmed: '
            'read again and decide anew', NEW.from_us, NEW.to_us, name, gone
            USING ERRCODE = 'MD002';
    END IF;
    IF array_ndims(NEW.bucket_us) > 1 OR array_lower(NEW.bucket_us, 1) <> 1
        OR array_ndims(NEW.bucket_rows) > 1 OR array_lower(NEW.bucket_rows, 1) <> 1
        OR array_ndims(NEW.sum_a) > 1 OR array_lower(NEW.sum_a, 1) <> 1
        OR array_ndims(NEW.sum_b) > 1 OR array_lower(NEW.sum_b, 1) <> 1
        OR array_ndims(NEW.file_ids) > 1 OR array_lower(NEW.file_ids, 1) <> 1
    THEN  -- an empty array has neither
        RAISE EXCEPTION 'segment [%, %) of % has an array that is no list from 1 on: give lists',
            NEW.from_us, NEW.to_us, name USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM unnest(NEW.bucket_us, NEW.bucket_rows) WITH ORDINALITY AS b (at_us, n, i)
        WHERE at_us IS NULL OR n IS NULL OR at_us % width <> 0 OR n <= 0
            OR at_us < NEW.from_us OR at_us >= NEW.to_us OR at_us <= NEW.bucket_us[i - 1]
    ) THEN
        RAISE EXCEPTION 'segment [%, %) of % lists a bucket off its grid, outside, out of order or '
            'without rows: list non-empty buckets of % us once, ascending',
            NEW.from_us, NEW.to_us, name, width USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.check_files(name, NEW.from_us, NEW.to_us, NEW.file_ids);
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_segment() IS
    'S2: a row begins live and keeps its content; only a tentative one may be superseded. '
    'Rows lie on the grid, behind what is trimmed, and name files of their stream. Of a final row '
    'only the file may change, for one with the same rows.';

CREATE FUNCTION medusa.guard_compaction() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    named  numeric;
    stored bigint;
BEGIN
    SELECT sum(s.row_count) INTO named FROM medusa.segment AS s
    WHERE s.file_ids @> NEW.file_ids AND cardinality(s.file_ids) > 0;
    SELECT f.rows INTO stored FROM medusa.file AS f WHERE f.file_id = NEW.file_ids[1];
    IF named IS DISTINCT FROM stored THEN
        RAISE EXCEPTION 'the segments that name file % have % rows, the file has %: compact '
            'segments into a file of exactly their rows', NEW.file_ids[1], named, stored
            USING ERRCODE = 'MDS02';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.guard_compaction() IS
    'S2: a file that takes the place of others has as many rows as all segments that name it.';
CREATE CONSTRAINT TRIGGER guard_compaction AFTER UPDATE OF file_ids ON medusa.segment
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.stability <> 'tentative' AND OLD.file_ids IS DISTINCT FROM NEW.file_ids)
    EXECUTE FUNCTION medusa.guard_compaction();

CREATE FUNCTION medusa.guard_hold() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- One after the other with trimming: it must see every hold that was placed before.
    PERFORM FROM medusa.stream AS s WHERE s.name = NEW.stream FOR NO KEY UPDATE;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_hold() IS 'S7: a hold is placed before or after a trim.';
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON medusa.hold
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_hold();

CREATE FUNCTION medusa.guard_trimmed_segment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM medusa.stream_producer AS p
        WHERE p.line_id = OLD.line_id AND OLD.to_us <= p.trimmed_us)
    THEN
        RAISE EXCEPTION 'segment [%, %) is not trimmed: trim its line first', OLD.from_us,
            OLD.to_us USING ERRCODE = 'MDS07';
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION medusa.guard_trimmed_segment() IS 'S7: only what is trimmed is removed.';
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.segment
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_trimmed_segment();

CREATE FUNCTION medusa.guard_file() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM medusa.segment AS s
            WHERE s.file_ids @> ARRAY[OLD.file_id] AND cardinality(s.file_ids) > 0)
        OR EXISTS (SELECT FROM medusa.landed_batch AS b WHERE b.file_id = OLD.file_id)
    THEN
        RAISE EXCEPTION 'file % is named by a segment or a landed batch: the table is insert-only '
            'but for files that nothing names', OLD.path USING ERRCODE = 'MDLOG';
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION medusa.guard_file() IS 'S10: a file that is named stays known.';
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.file
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_file();

CREATE FUNCTION medusa.guard_landed_batch() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    same medusa.landed_batch;
BEGIN
    same := OLD;
    same.file_id := NULL;
    IF NEW IS DISTINCT FROM same OR EXISTS (
        SELECT FROM medusa.landed_bucket AS k
        JOIN medusa.stream_producer AS p ON p.line_id = k.line_id
        JOIN medusa.stream AS s ON s.name = p.stream
        WHERE k.line_id = OLD.line_id AND k.batch_no = OLD.batch_no
            AND (k.bucket_us + s.width_us <= p.trimmed_us) IS NOT TRUE)
    THEN
        RAISE EXCEPTION 'batch % of % stays as it landed: the table is insert-only but for files '
            'of batches that are trimmed', OLD.batch_id, OLD.stream USING ERRCODE = 'MDLOG';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_landed_batch() IS
    'S7: a batch lets go of its file when all its buckets are trimmed; its key stays.';
CREATE TRIGGER guard BEFORE UPDATE ON medusa.landed_batch
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_landed_batch();

CREATE FUNCTION medusa.guard_assignment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone record;
BEGIN
    SELECT i.stream, i.trimmed_us INTO gone
    FROM medusa.fragment AS f
    JOIN medusa.home AS h ON h.participant = NEW.participant
    JOIN medusa.stream_producer AS i ON i.stream = ANY (f.inputs) AND i.trimmed_us IS NOT NULL
    JOIN medusa.stream_producer AS o ON o.stream = ANY (f.outputs) AND o.boundary_us IS NULL
        AND (o.participant, o.replica) = (NEW.participant, NEW.replica)
    WHERE f.id = NEW.fragment LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'fragment % would begin without what % has lost before %: let it read a '
            'stream that is whole', NEW.fragment, gone.stream, gone.trimmed_us
            USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_assignment() IS
    'No output begins over input that is gone, as if there had been none.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.assignment
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_assignment();

CREATE FUNCTION medusa.remove_trimmed(line medusa.stream_producer, segments_max integer)
RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    width    bigint;
    ids      bigint[];
    others   bigint[];
    files    bigint[];
    removed  bigint;
    row_sum  bigint;
    released jsonb;
BEGIN
    SELECT s.width_us INTO width FROM medusa.stream AS s WHERE s.name = line.stream;
    SELECT array_agg(t.segment_id) INTO ids FROM (
        SELECT s.segment_id FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us <= line.trimmed_us
        ORDER BY s.to_us LIMIT remove_trimmed.segments_max) AS t;
    SELECT array_agg(t.segment_id) INTO others FROM (
        SELECT s.segment_id FROM medusa.segment AS s
        WHERE s.end_version IS NOT NULL AND s.to_us <= line.trimmed_us
            AND int8range(s.line_id, s.line_id, '[]') && int8range(line.line_id, line.line_id, '[]')
            AND int8range(s.from_us, s.to_us) && int8range(NULL, line.trimmed_us)
        LIMIT remove_trimmed.segments_max - coalesce(cardinality(ids), 0)) AS t;
    WITH gone AS (
        DELETE FROM medusa.segment AS s WHERE s.segment_id = ANY (ids || others)
        RETURNING s.end_version, s.row_count, s.file_ids
    )
    SELECT count(*), coalesce(sum(g.row_count) FILTER (WHERE g.end_version IS NULL), 0),
        (SELECT array_agg(DISTINCT f) FROM gone, unnest(gone.file_ids) AS f)
    INTO removed, row_sum, files FROM gone AS g;
    WITH freed AS (
        SELECT b.batch_no, b.file_id FROM medusa.landed_batch AS b
        WHERE b.line_id = line.line_id AND b.file_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM medusa.landed_bucket AS k
            WHERE k.line_id = b.line_id AND k.batch_no = b.batch_no
                AND k.bucket_us > line.trimmed_us - width)
    ), let_go AS (
        UPDATE medusa.landed_batch AS b SET file_id = NULL FROM freed
        WHERE b.batch_no = freed.batch_no RETURNING freed.file_id
    )
    SELECT files || array_agg(l.file_id) INTO files FROM let_go AS l;
    WITH gone AS (
        DELETE FROM medusa.file AS f
        WHERE f.file_id = ANY (files)
            AND NOT EXISTS (SELECT FROM medusa.segment AS s
                WHERE s.file_ids @> ARRAY[f.file_id] AND cardinality(s.file_ids) > 0)
            AND NOT EXISTS (SELECT FROM medusa.landed_batch AS b WHERE b.file_id = f.file_id)
        RETURNING f.path, f.size_bytes, f.sha256, f.rows
    )
    SELECT jsonb_agg(jsonb_build_array(g.path, g.size_bytes, g.sha256, g.rows) ORDER BY g.path)
    INTO released FROM gone AS g;
    RETURN jsonb_build_object('segments', removed, 'rows', row_sum, 'files', released,
        'has_more', removed >= remove_trimmed.segments_max);
END $$;
COMMENT ON FUNCTION medusa.remove_trimmed(medusa.stream_producer, integer) IS
    'Remove rows of a line that are trimmed, at most so many segments, and what only they named.';

CREATE FUNCTION medusa.trim_line(
    stream text, participant text, replica integer, before_us bigint, needed jsonb,
    segments_max integer, explain boolean
) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line    medusa.stream_producer;
    width   bigint;
    readers text[];
    at_us   bigint;
    stop    record;
    answer  jsonb;
BEGIN
    -- 1 Lock the stream, on which nobody places a hold meanwhile, and then the line.
    SELECT s.width_us INTO width FROM medusa.stream AS s WHERE s.name = trim_line.stream
    FOR NO KEY UPDATE;
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
COMMENT ON FUNCTION medusa.trim_line(text, text, integer, bigint, jsonb, integer, boolean) IS
    'Trim a line as far as nothing holds it: the numbers are those of the interface.';

CREATE FUNCTION medusa.compact_line(
    stream text, participant text, replica integer, segments jsonb, file jsonb
) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line     medusa.stream_producer;
    ids      bigint[];
    row_sum  bigint;
    olds     bigint[];
    new_id   bigint;
    released jsonb;
BEGIN
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (compact_line.stream, compact_line.participant, compact_line.replica)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(compact_line.stream, compact_line.participant,
            compact_line.replica);
    END IF;
    SELECT array_agg(s.segment_id), sum(s.row_count) INTO ids, row_sum
    FROM jsonb_to_recordset(compact_line.segments) AS r
        (from_us bigint, to_us bigint, version bigint)
    JOIN medusa.segment AS s ON s.line_id = line.line_id AND s.end_version IS NULL
        AND s.to_us = r.to_us AND s.from_us = r.from_us AND s.version = r.version
    WHERE s.stability <> 'tentative' AND s.bucket_count > 0;
    IF cardinality(ids) IS DISTINCT FROM jsonb_array_length(compact_line.segments) THEN
        RAISE EXCEPTION 'the segments of % to be compacted are not all there, final and with rows: '
            'read again', compact_line.stream USING ERRCODE = 'MD002';
    END IF;
    IF row_sum IS DISTINCT FROM (compact_line.file->>'rows')::bigint THEN
        RAISE EXCEPTION 'file % has % rows, the segments of % have %: write their rows',
            compact_line.file->>'path', compact_line.file->>'rows', compact_line.stream, row_sum
            USING ERRCODE = 'MD001';
    END IF;
    SELECT array_agg(DISTINCT f) INTO olds
    FROM medusa.segment AS s, unnest(s.file_ids) AS f WHERE s.segment_id = ANY (ids);
    new_id := (medusa.record_files(compact_line.stream, jsonb_build_array(compact_line.file)))[1];
    UPDATE medusa.segment AS s SET file_ids = ARRAY[new_id]
    WHERE s.segment_id = ANY (ids) AND s.file_ids <> ARRAY[new_id];
    WITH gone AS (
        DELETE FROM medusa.file AS f
        WHERE f.file_id = ANY (olds)
            AND NOT EXISTS (SELECT FROM medusa.segment AS s
                WHERE s.file_ids @> ARRAY[f.file_id] AND cardinality(s.file_ids) > 0)
            AND NOT EXISTS (SELECT FROM medusa.landed_batch AS b WHERE b.file_id = f.file_id)
        RETURNING f.path, f.size_bytes, f.sha256, f.rows
    )
    SELECT jsonb_agg(jsonb_build_array(g.path, g.size_bytes, g.sha256, g.rows) ORDER BY g.path)
    INTO released FROM gone AS g;
    RETURN coalesce(released, '[]');
END $$;
COMMENT ON FUNCTION medusa.compact_line(text, text, integer, jsonb, jsonb) IS
    'Let final segments name one file with the same rows; returns the files that nothing names.';

CREATE OR REPLACE FUNCTION medusa.line_news(
    stream text, participant text, replica integer, after bigint, segments_max integer
) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line record;
    upto bigint;
    first bigint;
    gone bigint;
BEGIN
    SELECT p.line_id, p.last_version, p.origin_us, p.end_us,
        coalesce(p.trimmed_us, -9223372036854775808) AS trimmed_us INTO line
    FROM medusa.stream_producer AS p
    WHERE p.stream = line_news.stream AND p.participant = line_news.participant
        AND p.replica = line_news.replica;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(line_news.stream, line_news.participant,
            line_news.replica);
    END IF;
    IF line_news.after > line.last_version THEN
        RAISE EXCEPTION 'the line of % by %/% stands at %, before %: its home was set back, '
            'call its operator', line_news.stream, line_news.participant, line_news.replica,
            line.last_version, line_news.after USING ERRCODE = 'MD001';
    END IF;
    -- A page ends with a whole version, and holds one at least.
    SELECT min(p.begin_version), max(p.begin_version) FILTER (WHERE p.i > line_news.segments_max)
    INTO first, upto
    FROM (
        SELECT s.begin_version, row_number() OVER (ORDER BY s.begin_version) AS i
        FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.begin_version > line_news.after
            AND s.to_us > line.trimmed_us  -- before it all counts as gone, removed or not yet
        ORDER BY s.begin_version LIMIT line_news.segments_max + 1
    ) AS p;
    upto := CASE WHEN upto IS NULL THEN line.last_version ELSE greatest(upto - 1, first) END;
    -- What reaches over the place and comes, or ends, with a later page is not lost.
    IF line.trimmed_us > -9223372036854775808 THEN
        SELECT least(line.trimmed_us, min(s.from_us)) INTO gone
        FROM (
            (SELECT t.from_us, t.begin_version AS changed FROM medusa.segment AS t
            WHERE t.line_id = line.line_id AND t.end_version IS NULL
                AND t.to_us > line.trimmed_us
            ORDER BY t.to_us LIMIT 1)
            UNION ALL
            SELECT t.from_us, t.end_version FROM medusa.segment AS t
            WHERE t.end_version IS NOT NULL AND t.to_us > line.trimmed_us
                AND int8range(t.line_id, t.line_id, '[]')
                    && int8range(line.line_id, line.line_id, '[]')
                AND int8range(t.from_us, t.to_us)
                    && int8range(line.trimmed_us - 1, line.trimmed_us)
        ) AS s
        WHERE s.changed > upto;
    END IF;
    RETURN jsonb_build_object(
        'version', upto,
        'origin_us', line.origin_us,
        'end_us', CASE WHEN upto = line.last_version THEN line.end_us END,
        'trimmed_us', gone,
        'segments', (
            SELECT jsonb_agg(jsonb_build_object('from_us', s.from_us, 'to_us', s.to_us,
                'stability', s.stability, 'version', s.version, 'begin_version', s.begin_version,
                'end_version', CASE WHEN s.end_version <= upto THEN s.end_version END,
                'plan', s.plan, 'age_ms', s.age_ms, 'missing', s.missing,
                'bucket_us', s.bucket_us, 'bucket_rows', s.bucket_rows,
                'sum_a', array_to_string(s.sum_a, ','), 'sum_b', array_to_string(s.sum_b, ','),
                'files', (
                    SELECT jsonb_agg(jsonb_build_array(f.path, f.size_bytes, f.sha256, f.rows)
                        ORDER BY u.i)
                    FROM unnest(s.file_ids) WITH ORDINALITY AS u (file_id, i)
                    JOIN medusa.file AS f ON f.file_id = u.file_id)
                ) ORDER BY s.begin_version, s.from_us)
            FROM (
                SELECT * FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.begin_version > line_news.after
                    AND t.begin_version <= upto AND t.to_us > line.trimmed_us
                    AND (t.end_version IS NULL OR t.end_version > upto)
                UNION ALL
                SELECT * FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.end_version > line_news.after
                    AND t.end_version <= upto AND t.begin_version <= line_news.after
                    AND t.to_us > line.trimmed_us
            ) AS s),
        'plans', (
            SELECT jsonb_agg(jsonb_build_object('id', p.id, 'network', p.network,
                'document', p.document) ORDER BY p.id)
            FROM medusa.plan AS p
            WHERE p.id IN (SELECT t.plan FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.begin_version > line_news.after
                    AND t.begin_version <= upto AND t.to_us > line.trimmed_us)));
END $$;

CREATE OR REPLACE FUNCTION medusa.import_line(request jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    forever CONSTANT bigint := 9223372036854775807;
    asked record;
    line  record;
    clock timestamptz;
    made  bigint;
    at_us bigint;
    upto  bigint;
    other text;
    final record;
    gaps  jsonb := '[]';
BEGIN
    SELECT * INTO asked FROM jsonb_to_record(request) AS w (
        key text, fragment text, partition integer, participant text, replica integer,
        lane medusa.lane, epoch bigint, holder text, plan text, stream text,
        from_participant text, from_replica integer, after bigint, version bigint,
        origin_us bigint, end_us bigint, trimmed_us bigint, segments jsonb, plans jsonb);

    -- 1 The same news brought before?
    IF EXISTS (SELECT FROM medusa.commit AS c WHERE c.key = asked.key) THEN
        RETURN false;
    END IF;

    -- 2 Lock the lease (S8), which is of this stream's import.
    PERFORM medusa.check_lease(asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.holder);
    IF asked.fragment <> 'import/' || asked.stream THEN
        RAISE EXCEPTION 'fragment % does not import %: take the lease of import/%',
            asked.fragment, asked.stream, asked.stream USING ERRCODE = 'MD001';
    END IF;

    -- 3 Lock the line, which is a partner's and stands where the news begins.
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) =
        (asked.stream, asked.from_participant, asked.from_replica)
    FOR UPDATE;
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(asked.stream, asked.from_participant,
            asked.from_replica);
    END IF;
    clock := medusa.check_lease(asked.fragment, asked.partition, asked.participant,
        asked.replica, asked.lane, asked.epoch, asked.holder);  -- the line was waited for
    IF EXISTS (SELECT FROM medusa.commit AS c WHERE c.key = asked.key) THEN
        RETURN false;
    END IF;
    IF line.participant = (SELECT h.participant FROM medusa.home AS h) THEN
        RAISE EXCEPTION 'the line of % is written here: only a partner''s is imported',
            asked.stream USING ERRCODE = 'MD001';
    END IF;
    IF line.last_version <> asked.after OR asked.version < asked.after THEN
        RAISE EXCEPTION 'the line of % by % stands here at %, not at %: ask for its news again',
            asked.stream, asked.from_participant, line.last_version, asked.after
            USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.network (name, document)
    SELECT p.network, p.document
    FROM jsonb_to_recordset(asked.plans) AS p (id text, network text, document text)
    ON CONFLICT DO NOTHING;
    INSERT INTO medusa.plan (id, network, document)
    SELECT p.id, p.network, p.document
    FROM jsonb_to_recordset(asked.plans) AS p (id text, network text, document text)
    ON CONFLICT DO NOTHING;
    SELECT p.id INTO other
    FROM jsonb_to_recordset(asked.plans) AS p (id text, network text, document text)
    JOIN medusa.plan AS here ON here.id = p.id WHERE here.document <> p.document LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'plan % stands here with another document: a plan is named by its '
            'fingerprint', other USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.commit (key, fragment, partition, participant, replica, lane, epoch, plan,
        cause, from_us, to_us, versions, committed_at)
    SELECT asked.key, asked.fragment, asked.partition, asked.participant, asked.replica,
        asked.lane, asked.epoch, asked.plan, 'import',
        coalesce(min(r.from_us), asked.origin_us, 0), coalesce(max(r.to_us), asked.origin_us, 0),
        jsonb_build_object(asked.stream, asked.version), clock
    FROM jsonb_to_recordset(asked.segments) AS r (from_us bigint, to_us bigint)
    RETURNING commit_id INTO made;

    -- 4 End what was superseded, write what is live. Before this place all is final here.
    SELECT least(line.boundary_us, min(s.from_us)) INTO at_us FROM (
        SELECT t.from_us FROM medusa.segment AS t
        WHERE t.line_id = line.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        ORDER BY t.to_us LIMIT 1) AS s;
    at_us := coalesce(at_us, asked.origin_us);
    UPDATE medusa.segment AS s SET end_version = r.end_version
    FROM jsonb_to_recordset(asked.segments) AS r
        (from_us bigint, to_us bigint, begin_version bigint, end_version bigint)
    WHERE s.line_id = line.line_id AND s.end_version IS NULL AND r.end_version IS NOT NULL
        AND (s.from_us, s.to_us, s.begin_version) = (r.from_us, r.to_us, r.begin_version);
    -- Of a tentative row that is trimmed, the end is not told: what took its place shows it.
    UPDATE medusa.segment AS s SET end_version = (
        SELECT min(r.begin_version)
        FROM jsonb_to_recordset(asked.segments) AS r
            (from_us bigint, to_us bigint, begin_version bigint, end_version bigint)
        WHERE r.end_version IS NULL AND r.from_us < s.to_us AND r.to_us > s.from_us)
    WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.stability = 'tentative'
        AND s.to_us <= asked.trimmed_us AND EXISTS (
            SELECT FROM jsonb_to_recordset(asked.segments) AS r
                (from_us bigint, to_us bigint, end_version bigint)
            WHERE r.end_version IS NULL AND r.from_us < s.to_us AND r.to_us > s.from_us);
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
        commit_id, age_ms, missing, bucket_us, bucket_rows, sum_a, sum_b, file_ids)
    SELECT line.line_id, r.from_us, r.to_us, r.stability, r.version, r.begin_version, r.plan, made,
        r.age_ms, r.missing, r.bucket_us, r.bucket_rows, r.sum_a, r.sum_b,
        medusa.record_files(asked.stream, r.files)
    FROM jsonb_to_recordset(asked.segments) AS r
        (from_us bigint, to_us bigint, stability medusa.stability, version bigint,
         begin_version bigint, end_version bigint, plan text, age_ms bigint, missing text[],
         bucket_us bigint[], bucket_rows bigint[], sum_a numeric[], sum_b numeric[], files jsonb)
    WHERE r.end_version IS NULL;

    -- 5 What the partner has trimmed and is not final here is lost: declare it.
    WHILE at_us < asked.trimmed_us LOOP
        SELECT s.from_us, s.to_us INTO final FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us > at_us
            AND s.stability <> 'tentative'
        ORDER BY s.to_us LIMIT 1;
        upto := least(final.from_us, asked.trimmed_us);
        IF at_us < upto THEN
            gaps := gaps || jsonb_build_object('from_us', at_us, 'to_us', upto);
        END IF;
        at_us := coalesce(final.to_us, asked.trimmed_us);
    END LOOP;
    PERFORM medusa.supersede(s.segment_id, asked.version, gaps)
    FROM medusa.segment AS s
    WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.stability = 'tentative'
        AND EXISTS (
            SELECT FROM jsonb_to_recordset(gaps) AS g (from_us bigint, to_us bigint)
            WHERE g.from_us < s.to_us AND g.to_us > s.from_us);
    INSERT INTO medusa.segment (line_id, from_us, to_us, stability, version, begin_version, plan,
        commit_id)
    SELECT line.line_id, g.from_us, g.to_us, 'gap', asked.version, asked.version, asked.plan, made
    FROM jsonb_to_recordset(gaps) AS g (from_us bigint, to_us bigint);

    -- 6 Move version and boundary (S1).
    at_us := coalesce(line.boundary_us, asked.origin_us);
    LOOP
        SELECT s.to_us INTO upto FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.end_version IS NULL AND s.to_us > at_us
            AND s.from_us <= at_us
        ORDER BY s.to_us LIMIT 1;
        EXIT WHEN NOT FOUND;
        at_us := upto;
    END LOOP;
    UPDATE medusa.stream_producer AS p
    SET last_version = asked.version,
        origin_us = coalesce(p.origin_us, asked.origin_us),
        end_us = coalesce(p.end_us, asked.end_us),
        boundary_us = CASE WHEN at_us >= coalesce(p.end_us, asked.end_us) THEN forever
            ELSE at_us END
    WHERE p.line_id = line.line_id;
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;

CREATE OR REPLACE VIEW medusa_api.streams WITH (security_invoker = true) AS
SELECT s.name AS stream, s.kind, s.width_us, s.columns, s.key_columns, p.participant, p.replica,
    p.last_version AS version, p.origin_us, p.boundary_us, p.promised_us, p.end_us,
    p.boundary_us = 9223372036854775807 AS has_ended, p.trimmed_us
FROM medusa.stream AS s JOIN medusa.stream_producer AS p ON p.stream = s.name;

CREATE OR REPLACE VIEW medusa_api.published_boundaries WITH (security_invoker = true) AS
SELECT stream, participant, replica, last_version AS version, origin_us, boundary_us, end_us,
    trimmed_us
FROM medusa.stream_producer;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA medusa FROM PUBLIC;

CREATE OR REPLACE FUNCTION medusa.grant_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind  text;
    role  text;
    rights text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'airflow', 'analyst', 'reader'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        FOREACH rights IN ARRAY CASE kind
            WHEN 'job' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON ALL TABLES IN SCHEMA medusa, medusa_api',
                'EXECUTE ON FUNCTION medusa.deploy, medusa.acquire_lease, medusa.renew_lease, '
                    'medusa.release_lease, medusa.land, medusa.promise, medusa.commit_step, '
                    'medusa.place_hold, medusa.release_hold, medusa.to_ms, '
                    'medusa.declare_source, medusa.line_news, medusa.import_line, '
                    'medusa.acknowledge, medusa.trim_line, medusa.compact_line']
            WHEN 'airflow' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON medusa.stream, medusa.stream_producer, medusa.assignment, '
                    'medusa.lease, medusa.commit, medusa.step_metrics, medusa.hold, '
                    'medusa_api.streams, medusa_api.assignments, medusa_api.leases, '
                    'medusa_api.steps, medusa_api.holds',
                'EXECUTE ON FUNCTION medusa.deploy, medusa.declare_source']
            WHEN 'analyst' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT ON medusa.stream, medusa.stream_producer, medusa.segment, '
                    'medusa.file, medusa.commit, medusa.step_metrics, medusa.lineage, '
                    'medusa.quarantine, medusa.assignment, medusa.lease, medusa.hold',
                'SELECT ON ALL TABLES IN SCHEMA medusa_api']
            WHEN 'reader' THEN ARRAY[
                'USAGE ON SCHEMA medusa, medusa_api',
                'SELECT (line_id, stream, participant, replica, last_version, origin_us, '
                    'boundary_us, end_us, trimmed_us) ON medusa.stream_producer',
                'SELECT (line_id, from_us, to_us, stability, generation, version, begin_version, '
                    'end_version, plan, age_ms, missing, bucket_us, bucket_rows, sum_a, sum_b, '
                    'file_ids) ON medusa.segment',
                'SELECT (file_id, stream, path, size_bytes, sha256, rows) ON medusa.file',
                'SELECT ON medusa_api.published_boundaries, medusa_api.published_segments, '
                    'medusa_api.published_files',
                'EXECUTE ON FUNCTION medusa.line_news, medusa.acknowledge']
        END LOOP
            EXECUTE format('GRANT ' || rights || ' TO %I', role);
        END LOOP;
    END LOOP;
END $$;
SELECT medusa.grant_to_roles();
