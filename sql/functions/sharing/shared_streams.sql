CREATE OR REPLACE FUNCTION medusa_api.shared_streams(token_id bigint) RETURNS TABLE (stream text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT DISTINCT g.stream
    FROM medusa_market.recipient_token AS t
    JOIN medusa.recipient_grant AS g ON g.recipient IN (t.recipient, '*')
    WHERE t.token_id = shared_streams.token_id AND t.revoked_at IS NULL
        AND t.expires_at > clock_timestamp()
        -- Copies of others' lines are for their own homes to share.
        AND EXISTS (
            SELECT FROM medusa.stream_producer AS p
            JOIN medusa.home AS h ON h.participant = p.participant
            WHERE p.stream = g.stream AND p.replica >= 0)
$$;
COMMENT ON FUNCTION medusa_api.shared_streams(bigint) IS
    'The streams that the holder of a token may read through Delta Sharing: those that this home '
    'computes and that are granted to the recipient, while the token counts.';
