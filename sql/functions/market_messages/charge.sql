CREATE OR REPLACE FUNCTION medusa_market.charge(envelope medusa_market.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM medusa_market.charge_share(envelope);
    IF medusa_market.room_of(envelope.kind) = 'market' THEN
        PERFORM medusa_market.charge_market(envelope);
    ELSIF envelope.kind IN ('document', 'withdrawal', 'let_go', 'want', 'notice', 'refusal') THEN
        PERFORM medusa_market.charge_contracts(envelope);
    END IF;
    DELETE FROM medusa_market.delivery_pause AS p WHERE p.partner = envelope.sender;
END $$;
COMMENT ON FUNCTION medusa_market.charge(medusa_market.inbox) IS
    'Count a verified envelope against its sender''s bounds, once; refused beyond them. '
    'Sending to its sender resumes.';
