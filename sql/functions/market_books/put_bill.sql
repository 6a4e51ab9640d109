CREATE OR REPLACE FUNCTION medusa_market.put_bill(statement text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa_market.put_out(b.payer, 'bill', 'bill/' || b.contract || '/' || b.period,
        jsonb_build_object('document', convert_from(b.document, 'UTF8'),
            'signature', encode(s.signature, 'hex')))
    FROM medusa_market.bill AS b
    CROSS JOIN LATERAL medusa_market.signature_of('bills ' || b.statement, b.provider)
        AS s (signature)
    WHERE b.statement = put_bill.statement AND b.made_by = b.provider
        AND b.provider = medusa_market.here() AND s.signature IS NOT NULL
$$;
COMMENT ON FUNCTION medusa_market.put_bill(text) IS
    'Send the payer this home''s statement, once it is signed.';
