CREATE OR REPLACE FUNCTION medusa_market.charge_market(envelope medusa_market.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (
        SELECT FROM medusa_market.partner_share AS s
        WHERE s.partner = envelope.sender AND s.kind = 'kept' AND s.bytes > 268435456)
    THEN
        PERFORM medusa_market.refuse_too_much(format(
            'offers and answers of %s fill its 256 MiB: it is '
            'heard again when the oldest have gone (medusa_market.message_retention)',
                envelope.sender));
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.charge_market(medusa_market.inbox) IS
    'Refuse offers and answers of a partner with 256 MiB of them stored here.';
