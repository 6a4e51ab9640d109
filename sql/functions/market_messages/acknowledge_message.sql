CREATE OR REPLACE FUNCTION medusa_market.acknowledge_message(message_id bigint,
    problem text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa_market.outbox AS o SET problem = left(acknowledge_message.problem, 500),
        acknowledged_at = CASE WHEN acknowledge_message.problem IS NULL THEN clock_timestamp() END,
        body = CASE WHEN acknowledge_message.problem IS NULL THEN '' ELSE o.body END
    WHERE o.message_id = acknowledge_message.message_id AND o.acknowledged_at IS NULL
        AND (acknowledge_message.problem IS NULL OR o.problem IS DISTINCT FROM
            left(acknowledge_message.problem, 500));
END $$;
COMMENT ON FUNCTION medusa_market.acknowledge_message(bigint, text) IS
    'Record that a message is in the partner''s inbox (problem NULL), or why it is not.';
