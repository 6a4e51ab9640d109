CREATE OR REPLACE FUNCTION medusa.guard_segment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name  text;
    width bigint;
    gone  bigint;
    born  integer;
    same  medusa.segment;
    own   boolean;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        same := OLD;
        same.bucket_count := NEW.bucket_count;  -- generated after this trigger
        same.row_count := NEW.row_count;
        IF OLD.stability <> 'tentative' AND OLD.end_version IS NULL
            AND NEW.end_version IS NOT NULL
        THEN
            same.end_version := NEW.end_version;
            IF same IS NOT DISTINCT FROM NEW AND EXISTS (
                SELECT FROM medusa.recall AS r
                WHERE r.line_id = OLD.line_id AND r.made_in = pg_current_xact_id_if_assigned()
                    AND (r.ranges IS NULL AND r.from_us < OLD.to_us
                        OR r.version = NEW.end_version
                            AND r.ranges && int8range(OLD.from_us, OLD.to_us)))
            THEN
                RETURN NEW;
            END IF;
            same.end_version := OLD.end_version;
        END IF;
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
    SELECT s.name, s.width_us, p.trimmed_us, p.generation, EXISTS (
        SELECT FROM medusa.home AS h WHERE h.participant = p.participant)
    INTO name, width, gone, born, own
    FROM medusa.stream_producer AS p JOIN medusa.stream AS s ON s.name = p.stream
    WHERE p.line_id = NEW.line_id;
    IF born > 1 THEN
        SELECT coalesce(max(r.generation), 1) INTO NEW.generation FROM medusa.recall AS r
        WHERE r.line_id = NEW.line_id AND (r.ranges IS NULL AND r.version < NEW.version
            OR r.version <= NEW.version AND r.ranges && int8range(NEW.from_us, NEW.to_us));
    END IF;
    IF NEW.from_us % width <> 0 OR NEW.to_us % width <> 0 THEN
        RAISE EXCEPTION 'segment [%, %) of % is not on its grid: give multiples of % us',
            NEW.from_us, NEW.to_us, name, width USING ERRCODE = 'MD001';
    END IF;
    -- What a recall leaves of a row may reach over the place, as the row did; so may what a partner
    -- has instead of it.
    IF NEW.from_us < gone AND NOT (
        (NEW.version < NEW.begin_version OR NOT own AND NEW.to_us > gone) AND EXISTS (
            SELECT FROM medusa.recall AS r WHERE r.line_id = NEW.line_id))
    THEN
        RAISE EXCEPTION 'segment [%, %) of % begins before %, where all was final and is trimmed: '
            'read again and decide again', NEW.from_us, NEW.to_us, name, gone
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
    'S2: a row begins live and keeps its content; only a tentative one may be superseded, or '
    'in a recall any, and in a revision those of its ranges. Rows are on the grid, after all trimmed buckets, and name files of their '
    'stream. Of a final row only the file may change, for one with the same rows.';
