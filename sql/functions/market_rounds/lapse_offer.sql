CREATE OR REPLACE FUNCTION medusa_market.lapse_offer(waiting medusa_market.open_offer,
    because text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended medusa_market.offer;
BEGIN
    SELECT * INTO ended FROM medusa_market.offer AS o WHERE o.offer_id = waiting.offer_id;
    INSERT INTO medusa_market.offer_lapse (offer_id, because)
        VALUES (waiting.offer_id, lapse_offer.because);
    DELETE FROM medusa_market.open_offer AS o WHERE o.offer_id = waiting.offer_id;
    DELETE FROM medusa_market.outbox AS o
    WHERE o.receiver = waiting.partner AND o.about = 'offer/' || ended.nonce
        AND o.acknowledged_at IS NULL AND waiting.is_own;
    PERFORM medusa_market.write_audit('lapsed', ended.contract, to_jsonb(ended.nonce),
        to_jsonb(lapse_offer.because));
END $$;
COMMENT ON FUNCTION medusa_market.lapse_offer(medusa_market.open_offer, text) IS
    'End an open offer; its unsent messages are not sent.';
