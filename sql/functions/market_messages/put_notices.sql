CREATE OR REPLACE FUNCTION medusa_market.put_notices(contract text, receiver text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa_market.put_out(put_notices.receiver, 'notice',
        'notice/' || put_notices.contract || '/' || count(*),
        jsonb_build_object('contract', put_notices.contract, 'statements', jsonb_agg(
            jsonb_build_object('given_by', n.given_by, 'stated_by', n.stated_by,
                'ends_at_ms', n.ends_ms, 'signature', encode(n.signature, 'hex')))))
    FROM (
        SELECT DISTINCT ON (n.given_by, n.stated_by, n.ends_at) n.given_by, n.stated_by,
            medusa.to_ms(n.ends_at) AS ends_ms, s.signature
        FROM medusa_market.contract_notice AS n
        JOIN medusa_market.statement AS s ON s.party = n.stated_by AND s.statement
            = 'ends ' || n.contract || ' ' || n.given_by || ' ' || medusa.to_ms(n.ends_at)
        WHERE n.contract = put_notices.contract AND EXISTS (
                SELECT FROM medusa_market.contract_agreement AS a WHERE a.contract = n.contract)
            AND NOT EXISTS (
                SELECT FROM medusa_market.key_disowned AS d WHERE d.public_key = s.public_key)
        ORDER BY n.given_by, n.stated_by, n.ends_at, s.noted_at DESC LIMIT 16
    ) AS n HAVING count(*) > 0
$$;
COMMENT ON FUNCTION medusa_market.put_notices(text, text) IS
    'Send a partner all that is known of the end of an agreed contract, with the signatures.';
