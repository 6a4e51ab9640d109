CREATE OR REPLACE FUNCTION medusa_market.report_links(side text, reports jsonb) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    reported integer;
BEGIN
    INSERT INTO medusa_market.link AS l (partner, side, state, state_since, error, failed_at,
        answered_at, requests, failures, files, bytes_received, bytes_sent, answer_ms,
        answer_ms_max, delay_ms, delay_ms_max, reported_at)
    SELECT r.partner, report_links.side, r.state, now.at - r.state_ago_ms * ms.length,
        left(r.error, 1000), now.at - r.failed_ago_ms * ms.length,
        now.at - r.answered_ago_ms * ms.length, r.requests, r.failures, r.files,
        r.bytes_received, r.bytes_sent, r.answer_ms, r.answer_ms_max, r.delay_ms, r.delay_ms_max,
        now.at
    FROM jsonb_to_recordset(report_links.reports) AS r (partner text, state text,
        state_ago_ms bigint, error text, failed_ago_ms bigint, answered_ago_ms bigint,
        requests bigint, failures bigint, files bigint, bytes_received bigint, bytes_sent bigint,
        answer_ms bigint, answer_ms_max bigint, delay_ms bigint, delay_ms_max bigint)
    CROSS JOIN (SELECT clock_timestamp() AS at) AS now
    CROSS JOIN (SELECT interval '1 millisecond' AS length) AS ms
    -- So that there are no more rows than participants that were ever known here.
    WHERE EXISTS (SELECT FROM medusa_market.party_key AS k WHERE k.participant = r.partner)
    ORDER BY r.partner
    ON CONFLICT ON CONSTRAINT link_pkey DO UPDATE SET
        state = excluded.state,
        -- A process that was started again has seen less of the same state.
        state_since = CASE WHEN l.state = excluded.state
            THEN least(l.state_since, excluded.state_since) ELSE excluded.state_since END,
        error = coalesce(excluded.error, l.error),
        failed_at = coalesce(excluded.failed_at, l.failed_at),
        answered_at = coalesce(excluded.answered_at, l.answered_at),
        requests = l.requests + excluded.requests,
        failures = l.failures + excluded.failures,
        files = l.files + excluded.files,
        bytes_received = l.bytes_received + excluded.bytes_received,
        bytes_sent = l.bytes_sent + excluded.bytes_sent,
        answer_ms = coalesce(excluded.answer_ms, l.answer_ms),
        answer_ms_max = CASE WHEN excluded.answer_ms IS NULL THEN l.answer_ms_max
            ELSE excluded.answer_ms_max END,
        delay_ms = coalesce(excluded.delay_ms, l.delay_ms),
        delay_ms_max = CASE WHEN excluded.delay_ms IS NULL THEN l.delay_ms_max
            ELSE excluded.delay_ms_max END,
        reported_at = excluded.reported_at;
    GET DIAGNOSTICS reported = ROW_COUNT;
    RETURN reported;
END $$;
COMMENT ON FUNCTION medusa_market.report_links(text, jsonb) IS
    'Add what a process of this home has counted of its links since it last reported; states and '
    'times replace those before. Times are given as durations until now.';
