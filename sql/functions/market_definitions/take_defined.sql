CREATE OR REPLACE FUNCTION medusa_market.take_defined(
    envelope_id bigint, contract text, name text, state text, reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
BEGIN
    envelope := medusa_market.end_envelope(envelope_id);
    UPDATE medusa_market.definition AS d SET state = take_defined.state,
        reason = left(take_defined.reason, 2000), settled_at = clock_timestamp()
    WHERE (d.buyer, d.name, d.contract) = (medusa_market.here(), take_defined.name,
            take_defined.contract)
        AND d.state IN ('sent', 'running') AND d.state <> take_defined.state
        AND take_defined.state IN ('running', 'refused', 'ended')
        AND EXISTS (SELECT FROM medusa_market.contract_agreement AS a
            JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
            WHERE a.contract = d.contract AND r.provider = envelope.sender);
    RETURN CASE WHEN FOUND THEN 'noted' ELSE 'nothing' END;
END $$;
COMMENT ON FUNCTION medusa_market.take_defined(bigint, text, text, text, text) IS
    'A seller states that a definition of this home runs, is refused or has ended.';
