CREATE OR REPLACE FUNCTION medusa_market.put_bill_answer(statement text, outcome text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa_market.put_out(b.provider, 'bill_answer',
        'bill_answer/' || b.contract || '/' || b.period || '/' || a.step,
        jsonb_build_object('contract', b.contract, 'period', b.period, 'statement', b.statement,
            'outcome', a.outcome, 'amount', trim_scale(a.amount)::text,
            'own', convert_from(a.own, 'UTF8'), 'signature', encode(s.signature, 'hex'),
            'seeds', medusa_market.seeds_of_bill(b)))
    FROM medusa_market.bill AS b
    JOIN medusa_market.bill_answer AS a ON a.contract = b.contract AND a.period = b.period
    CROSS JOIN LATERAL medusa_market.signature_of(format('owes %s %s %s', b.statement, a.outcome,
        trim_scale(a.amount)), b.payer) AS s (signature)
    WHERE b.statement = put_bill_answer.statement AND b.made_by = b.provider
        AND a.outcome = put_bill_answer.outcome AND s.signature IS NOT NULL
$$;
COMMENT ON FUNCTION medusa_market.put_bill_answer(text, text) IS
    'Send the provider what this home owes of its statement, once that is signed.';
