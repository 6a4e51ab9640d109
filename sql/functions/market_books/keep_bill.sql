CREATE OR REPLACE FUNCTION medusa_market.keep_bill(document bytea, made_by text, cut_us bigint)
RETURNS medusa_market.bill
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given jsonb := convert_from(keep_bill.document, 'UTF8')::jsonb;
    terms medusa_market.contract_revision;
    kept  medusa_market.bill;
BEGIN
    SELECT r.* INTO terms FROM medusa_market.contract_agreement AS a
    JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
    WHERE a.contract = given->>'contract' AND a.revision = given->>'revision';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'revision % of contract % is not agreed here: the statement waits for it',
            left(given->>'revision', 12), given->>'contract' USING ERRCODE = 'MD002';
    END IF;
    IF (terms.payer, terms.provider, terms.currency) IS DISTINCT FROM
        (given->>'payer', given->>'provider', given->>'currency')
        OR keep_bill.made_by NOT IN (terms.payer, terms.provider)
        OR medusa_market.here() NOT IN (terms.payer, terms.provider)
    THEN
        RAISE EXCEPTION 'the statement of contract % names other parties or another currency',
            terms.contract USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.bill (contract, period, made_by, statement, document, revision,
        from_ms, to_ms, payer, provider, currency, total, cut_us)
    VALUES (terms.contract, (given->>'period')::bigint, keep_bill.made_by,
        encode(sha256(keep_bill.document), 'hex'), keep_bill.document, terms.revision,
        (given->>'from_ms')::bigint, (given->>'to_ms')::bigint, terms.payer, terms.provider,
        terms.currency, (given->>'total')::numeric, keep_bill.cut_us)
    ON CONFLICT DO NOTHING;
    SELECT b.* INTO kept FROM medusa_market.bill AS b
    WHERE (b.contract, b.period, b.made_by) =
        (terms.contract, (given->>'period')::bigint, keep_bill.made_by)
    FOR UPDATE;
    IF kept.document IS DISTINCT FROM keep_bill.document THEN
        RAISE EXCEPTION 'another statement of contract %, period %, by % is kept here: it is made '
            'once', kept.contract, kept.period, kept.made_by USING ERRCODE = 'MD001';
    END IF;
    RETURN kept;
END $$;
COMMENT ON FUNCTION medusa_market.keep_bill(bytea, text, bigint) IS
    'Keep a statement under an agreed revision; the same again is nothing, another one of the same '
    'period is refused.';
