CREATE OR REPLACE FUNCTION medusa_market.send_agreements(contract text, receiver text,
    from_number bigint)
RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa_market.put_document(a.revision, send_agreements.receiver,
        'agreement/' || a.revision,
        NULL, NULL)
    FROM (
        SELECT a.revision, a.number FROM medusa_market.contract_agreement AS a
        WHERE a.contract = send_agreements.contract
            AND a.number >= send_agreements.from_number
        ORDER BY a.number LIMIT 32
    ) AS a ORDER BY a.number;
    SELECT medusa_market.put_notices(send_agreements.contract, send_agreements.receiver);
$$;
COMMENT ON FUNCTION medusa_market.send_agreements(text, text, bigint) IS
    'Send a partner the agreements from a number on again, and when they end: it lacks them, '
    'or some.';
