CREATE OR REPLACE FUNCTION medusa_market.note_recipient_usage(used jsonb) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS $$
    INSERT INTO medusa_market.recipient_usage AS u (recipient, day, stream, requests, rows, bytes)
    SELECT n.recipient, CAST(clock_timestamp() AT TIME ZONE 'UTC' AS date), n.stream,
        sum(n.requests), sum(n.rows), sum(n.bytes)
    FROM jsonb_to_recordset(note_recipient_usage.used)
        AS n (recipient text, stream text, requests bigint, rows bigint, bytes bigint)
    -- A recipient that never had a token used nothing.
    WHERE EXISTS (SELECT FROM medusa_market.recipient_token AS t WHERE t.recipient = n.recipient)
    GROUP BY n.recipient, n.stream ORDER BY n.recipient, n.stream
    ON CONFLICT (recipient, day, stream) DO UPDATE SET requests = u.requests + excluded.requests,
        rows = u.rows + excluded.rows, bytes = u.bytes + excluded.bytes,
        last_at = excluded.last_at
$$;
COMMENT ON FUNCTION medusa_market.note_recipient_usage(jsonb) IS
    'For the exchange server: add what recipients used since the last call: recipient, stream, '
    'requests, rows, bytes.';
