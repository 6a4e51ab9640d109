CREATE OR REPLACE FUNCTION medusa_market.tidy_market(rows_max integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := clock_timestamp() - medusa_market.messages_kept();
    ended  bigint[];
    gone   bigint;
BEGIN
    DELETE FROM medusa_market.answer AS a WHERE a.answer_id = ANY (ARRAY(
        SELECT o.answer_id FROM medusa_market.answer AS o
        WHERE o.made_at < before
            AND NOT EXISTS (SELECT FROM medusa_market.last_word AS w
                WHERE w.answer_id = o.answer_id)
            AND NOT EXISTS (SELECT FROM medusa_market.agreed_move AS m
                WHERE m.answer_id = o.answer_id)
        ORDER BY o.made_at LIMIT rows_max FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS gone = ROW_COUNT;
    ended := ARRAY(
        SELECT o.offer_id FROM medusa_market.offer AS o
        WHERE o.made_at < before
            AND NOT EXISTS (SELECT FROM medusa_market.open_offer AS w WHERE w.offer_id = o.offer_id)
            AND NOT EXISTS (SELECT FROM medusa_market.answer AS a WHERE a.offer_id = o.offer_id)
        ORDER BY o.made_at LIMIT rows_max FOR UPDATE SKIP LOCKED);
    DELETE FROM medusa_market.offer_lapse AS l WHERE l.offer_id = ANY (ended);
    DELETE FROM medusa_market.offer AS o WHERE o.offer_id = ANY (ended);
    RETURN gone + cardinality(ended);
END $$;
COMMENT ON FUNCTION medusa_market.tidy_market(integer) IS
    'Let offers and answers go that are older than kept, and that no agreed move and no last word '
    'rests on; how many went.';
