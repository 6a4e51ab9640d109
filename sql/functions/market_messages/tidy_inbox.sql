CREATE OR REPLACE FUNCTION medusa_market.tidy_inbox() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    -- Arrays, which are computed once: a nested loop over IN would rank all of them for each row.
    WITH again AS (
        DELETE FROM medusa_market.inbox_repeat AS r WHERE r.repeat_id = ANY (ARRAY(
            SELECT o.repeat_id
                FROM medusa_market.inbox_repeat AS o LIMIT 10000 FOR UPDATE SKIP LOCKED))
        RETURNING r.envelope_id
    )
    UPDATE medusa_market.inbox AS i SET repeats = i.repeats + n.times
    FROM (SELECT a.envelope_id, count(*) AS times FROM again AS a GROUP BY a.envelope_id) AS n
    WHERE i.envelope_id = n.envelope_id;
    DELETE FROM medusa_market.inbox AS i WHERE i.envelope_id = ANY (ARRAY(
        SELECT o.envelope_id FROM medusa_market.inbox AS o WHERE o.envelope_id = ANY (ARRAY(
            SELECT n.envelope_id FROM (
                SELECT r.envelope_id, r.ended_at, row_number() OVER (
                    PARTITION BY r.sender ORDER BY r.envelope_id DESC) AS place
                FROM medusa_market.inbox AS r WHERE r.state = 'refused') AS n
            WHERE n.place > 100 OR n.ended_at < clock_timestamp() - medusa_market.messages_kept()))
        FOR UPDATE SKIP LOCKED));
    DELETE FROM medusa_market.inbox AS i WHERE i.envelope_id = ANY (ARRAY(
        SELECT o.envelope_id FROM medusa_market.inbox AS o
        WHERE o.state = 'handled' AND o.expires_at_ms < medusa.to_ms(clock_timestamp())
        FOR UPDATE SKIP LOCKED));
END $$;
COMMENT ON FUNCTION medusa_market.tidy_inbox() IS
    'Count repeated envelopes; keep the last 100 refused envelopes of a sender, and those that '
    'would count again if they were repeated. Rows that another session has locked wait for '
    'the next time.';
