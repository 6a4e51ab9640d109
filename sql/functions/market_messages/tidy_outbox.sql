CREATE OR REPLACE FUNCTION medusa_market.tidy_outbox() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM medusa_market.outbox AS o WHERE o.message_id = ANY (ARRAY(
        SELECT m.message_id FROM medusa_market.outbox AS m
        WHERE m.acknowledged_at < clock_timestamp() - CASE WHEN m.about LIKE 'proposal/%'
                THEN interval '62 days' ELSE interval '1 hour' END
            AND (m.kind <> 'notice' OR EXISTS (
                SELECT FROM medusa_market.outbox AS e
                WHERE e.receiver = m.receiver AND e.about = m.about
                    AND e.acknowledged_at < m.acknowledged_at))
            OR m.acknowledged_at IS NULL AND m.kind IN ('offer', 'answer')
                AND m.put_at < clock_timestamp() - interval '1 day'
        FOR UPDATE SKIP LOCKED))
$$;
COMMENT ON FUNCTION medusa_market.tidy_outbox() IS
    'Remove delivered messages: proposals when they cannot be repeated any more, all else '
    'after an hour, except when the first notice of a contract arrived, on which its end '
    'depends; and offers and answers that could not be sent for a day.';
