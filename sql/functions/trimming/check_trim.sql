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
    SELECT h.holder, h.purpose, k.from_us INTO other
    FROM medusa.hold AS h CROSS JOIN medusa.held_from(h, old) AS k (from_us)
    WHERE h.stream = old.stream AND k.from_us < new.trimmed_us AND medusa.is_held(h)
    ORDER BY k.from_us LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION '% is held from % on by % (%): trim no further', old.stream, other.from_us,
            other.holder, other.purpose USING ERRCODE = 'MDS07';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_trim(medusa.stream_producer, medusa.stream_producer) IS
    'S7: nothing is trimmed under a hold, behind the boundary or before it is final.';
