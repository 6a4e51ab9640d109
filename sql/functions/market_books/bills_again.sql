CREATE OR REPLACE FUNCTION medusa_market.bills_again() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    sent bigint;
BEGIN
    DELETE FROM medusa.hold AS h
    WHERE h.purpose = 'billing' AND h.holder LIKE 'contract:%' AND NOT EXISTS (
        SELECT FROM medusa_market.contract_agreement AS a
        WHERE 'contract:' || a.contract = split_part(h.holder, '/', 1));
    PERFORM medusa_market.put_bill(b.statement)
    FROM medusa_market.bill AS b
    WHERE b.provider = medusa_market.here() AND b.made_by = b.provider
        AND b.noted_at < clock_timestamp() - interval '1 day'
        AND NOT EXISTS (SELECT FROM medusa_market.bill_answer AS a
            WHERE (a.contract, a.period) = (b.contract, b.period))
        AND NOT EXISTS (SELECT FROM medusa_market.outbox AS o
            WHERE o.receiver = b.payer AND o.about = 'bill/' || b.contract || '/' || b.period
                AND (o.acknowledged_at IS NULL OR o.put_at > clock_timestamp() - interval '1 day'))
        AND NOT medusa_market.is_removed(b.payer);
    GET DIAGNOSTICS sent = ROW_COUNT;
    RETURN sent;
END $$;
COMMENT ON FUNCTION medusa_market.bills_again() IS
    'For jobs: send statements again that have had no answer for a day, and release what is held '
    'for contracts that are void; how many were sent.';
