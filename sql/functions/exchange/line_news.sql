CREATE OR REPLACE FUNCTION medusa.line_news(
    stream text, participant text, replica integer, after bigint, segments_max integer
) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line record;
    upto bigint;
    first bigint;
    gone bigint;
    again bigint;
    last  bigint;
    whole bigint;
    revised record;
    revision jsonb;
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
        RAISE EXCEPTION 'the line of % by %/% is at %, before %: its home was set back, '
            'call its operator', line_news.stream, line_news.participant, line_news.replica,
            line.last_version, line_news.after USING ERRCODE = 'MD006';
    END IF;
    -- A revision is a page of its own. A copy that is begun has all of them in its first page.
    last := line.last_version;
    IF line_news.after = 0 THEN
        SELECT max(r.version) INTO whole FROM medusa.recall AS r
        WHERE r.line_id = line.line_id AND r.ranges IS NOT NULL;
    ELSE
        SELECT r.version, r.generation, r.because, r.ranges INTO revised FROM medusa.recall AS r
        WHERE r.line_id = line.line_id AND r.version > line_news.after AND r.ranges IS NOT NULL
        ORDER BY r.version LIMIT 1;
        IF FOUND THEN
            last := greatest(revised.version - 1, line_news.after + 1);
            SELECT jsonb_build_object('version', revised.version, 'generation', revised.generation,
                'because', revised.because, 'last_generation', max(r.generation),
                'from_us', min(lower(r.ranges)), 'ranges', (
                    SELECT jsonb_agg(jsonb_build_object('from_us', lower(n), 'to_us', upper(n))
                        ORDER BY lower(n))
                    FROM unnest(revised.ranges) AS n))
            INTO revision FROM medusa.recall AS r
            WHERE r.line_id = line.line_id AND r.version >= revised.version AND r.ranges IS NOT NULL;
        END IF;
    END IF;
    -- A page ends with a whole version, and holds one at least.
    SELECT min(p.begin_version), max(p.begin_version) FILTER (WHERE p.i > line_news.segments_max)
    INTO first, upto
    FROM (
        SELECT s.begin_version, row_number() OVER (ORDER BY s.begin_version) AS i
        FROM medusa.segment AS s
        WHERE s.line_id = line.line_id AND s.begin_version > line_news.after
            AND s.begin_version <= last
            AND s.to_us > line.trimmed_us  -- before it all counts as gone, removed or not yet
        ORDER BY s.begin_version LIMIT line_news.segments_max + 1
    ) AS p;
    upto := CASE WHEN upto IS NULL THEN last ELSE greatest(upto - 1, first, whole) END;
    -- What a later page takes back is not reported first.
    SELECT coalesce(min(r.from_us), 9223372036854775807) INTO again FROM medusa.recall AS r
    WHERE r.line_id = line.line_id AND r.version > upto AND r.version <= last;
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
        'chain_after', (
            SELECT encode(v.chain, 'hex') FROM medusa.line_version AS v
            WHERE (v.line_id, v.version) = (line.line_id, line_news.after)),
        'chain', (
            SELECT encode(v.chain, 'hex') FROM medusa.line_version AS v
            WHERE (v.line_id, v.version) = (line.line_id, upto)),
        'made_ago_ms', (
            SELECT greatest(medusa.to_ms(statement_timestamp()) - medusa.to_ms(v.made_at), 0)
            FROM medusa.line_version AS v
            WHERE (v.line_id, v.version) = (line.line_id, upto) AND v.made_at IS NOT NULL),
        'segments', (
            SELECT jsonb_agg(jsonb_build_object('from_us', s.from_us, 'to_us', s.to_us,
                'stability', s.stability, 'version', s.version, 'begin_version', s.begin_version,
                'end_version', CASE WHEN s.end_version <= upto THEN s.end_version END,
                'plan', s.plan, 'missing', s.missing,
                -- Only durations cross between participants: how old it was when this request
                -- arrived here, by this clock. The server knows that moment.
                'age_ms', s.age_ms + greatest(medusa.to_ms(statement_timestamp()) - (
                    SELECT medusa.to_ms(c.committed_at) FROM medusa.commit AS c
                    WHERE c.commit_id = s.commit_id), 0),
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
                    AND t.begin_version <= upto AND t.to_us > line.trimmed_us AND t.to_us <= again
                    AND (t.end_version IS NULL OR t.end_version > upto)
                UNION ALL
                SELECT * FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.end_version > line_news.after
                    AND t.end_version <= upto AND t.begin_version <= line_news.after
                    AND t.to_us > line.trimmed_us AND t.to_us <= again
            ) AS s),
        'recalls', (
            SELECT jsonb_agg(jsonb_build_object('generation', r.generation, 'from_us', r.from_us,
                'version', r.version, 'because', r.because) ORDER BY r.generation)
            FROM medusa.recall AS r
            WHERE r.line_id = line.line_id AND r.version > line_news.after AND r.version <= last
                AND r.ranges IS NULL),
        'revision', revision,
        'plans', (
            SELECT jsonb_agg(jsonb_build_object('id', p.id, 'network', p.network,
                'document', p.document) ORDER BY p.id)
            FROM medusa.plan AS p
            WHERE p.id IN (SELECT t.plan FROM medusa.segment AS t
                WHERE t.line_id = line.line_id AND t.begin_version > line_news.after
                    AND t.begin_version <= upto AND t.to_us > line.trimmed_us)));
END $$;
COMMENT ON FUNCTION medusa.line_news(text, text, integer, bigint, integer) IS
    'The rows of a line that became live or were superseded after a version, '
    'page by page.';
