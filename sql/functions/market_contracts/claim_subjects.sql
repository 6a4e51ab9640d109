CREATE OR REPLACE FUNCTION medusa_market.claim_subjects(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other  text;
    agreed medusa_market.contract_revision := medusa_market.agreed_revision(contract);
    ends   timestamptz := medusa_market.ends_at(contract);
BEGIN
    DELETE FROM medusa_market.contract_claim AS c WHERE c.contract = claim_subjects.contract;
    INSERT INTO medusa_market.contract_claim (contract, subject, kind, payer, provider, validity)
    WITH counted AS (
        SELECT agreed.*
        UNION ALL
        (SELECT r.* FROM medusa_market.contract_activation AS v
        JOIN medusa_market.contract_revision AS r ON r.revision = v.revision
        WHERE v.contract = claim_subjects.contract AND v.revision <> agreed.revision
            AND NOT EXISTS (
                SELECT FROM medusa_market.contract_activation AS n
                    WHERE n.revision = agreed.revision)
        ORDER BY v.number DESC LIMIT 1)
    ), spoken AS (
        SELECT tstzrange(min(lower(c.validity)), least(max(upper(c.validity)),
            CASE WHEN ends IS NOT NULL THEN greatest(ends,
                min(lower(c.validity))) END)) AS validity,
            bool_or(c.kind = 'movement' AND c.fragments IS NULL) AS is_any
        FROM counted AS c
    )
    SELECT claim_subjects.contract, s.subject, agreed.kind, agreed.payer, agreed.provider,
        spoken.validity
    FROM spoken, LATERAL (
        SELECT '*' AS subject WHERE spoken.is_any
        UNION SELECT f FROM counted AS c, unnest(c.fragments) AS f WHERE NOT spoken.is_any
        UNION SELECT c.stream FROM counted AS c WHERE c.stream IS NOT NULL
    ) AS s
    WHERE NOT isempty(spoken.validity);
EXCEPTION WHEN exclusion_violation THEN
    SELECT c.contract INTO other FROM medusa_market.contract_claim AS c
    WHERE c.contract <> claim_subjects.contract AND c.kind = agreed.kind
        AND (c.payer, c.provider) = (agreed.payer, agreed.provider)
        AND c.validity && agreed.validity LIMIT 1;
    RAISE EXCEPTION 'contract % is about what contract % is about at the same time: end one of '
        'them before', contract, coalesce(other, 'another') USING ERRCODE = 'MD002';
END $$;
COMMENT ON FUNCTION medusa_market.claim_subjects(text) IS
    'Record the subject and the time of a contract: the last agreement, and the one that is '
    'still active; a conflict if another contract has the same subject.';
