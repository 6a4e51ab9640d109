CREATE OR REPLACE FUNCTION medusa_market.concede_bill(contract text, period bigint)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM medusa_market.put_out(b.payer, 'bill_concession',
        'bill_concession/' || b.contract || '/' || b.period, jsonb_build_object('contract',
            b.contract, 'period', b.period, 'statement', b.statement))
    FROM medusa_market.bill AS b
    WHERE (b.contract, b.period) = (concede_bill.contract, concede_bill.period)
        AND b.made_by = b.provider AND b.provider = medusa_market.here()
        AND medusa_market.is_disputed(b.contract, b.period);
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa_market.concede_bill(text, bigint) IS
    'For jobs of the provider: take the payer''s own statement in a dispute, which the payer then '
    'ends. False if there is no such dispute.';
