-- Each contract as it is agreed on, or else as it is proposed: its state, its parties, its terms, when it
-- ends, and the proposals about it that are open, the newest first, with their terms and documents.
WITH open AS (
    SELECT p.contract, p.revision, p.proposed_by, p.made_at, p.expires_at, p.who, p.because,
        p.signed_by
    FROM medusa_api.contract_proposals AS p WHERE p.state = 'open'
), known AS (
    SELECT DISTINCT ON (k.contract) k.contract, k.revision, k.is_agreed
    FROM (
        SELECT a.contract, a.revision, true AS is_agreed, a.number
        FROM medusa_market.contract_agreement AS a
        UNION ALL
        SELECT o.contract, o.revision, false, 0 FROM open AS o
    ) AS k
    ORDER BY k.contract, k.is_agreed DESC, k.number DESC
), contract AS (
    SELECT r.*, k.is_agreed, n.ends_at, CASE
            WHEN NOT k.is_agreed THEN 'proposed'
            WHEN least(upper(r.validity), n.ends_at) <= clock_timestamp() THEN 'ended'
            WHEN v.contract IS NOT NULL THEN 'in force'
            ELSE 'agreed' END AS state
    FROM known AS k
    JOIN medusa_market.contract_revision AS r ON r.revision = k.revision
    CROSS JOIN LATERAL (SELECT medusa_market.ends_at(k.contract) AS ends_at) AS n
    LEFT JOIN medusa_api.contract_in_force AS v ON v.contract = k.contract
)
SELECT c.contract, c.state, c.kind, c.payer, c.provider, c.currency, c.number,
    medusa.to_ms(lower(c.validity)) AS from_ms,
    medusa.to_ms(least(upper(c.validity), c.ends_at)) AS ends_ms, c.ends_at IS NOT NULL AS is_ending,
    c.stream, c.price::text AS price, c.per::text AS per, c.price_low::text AS price_low,
    c.price_high::text AS price_high, c.load_max::text AS load_max, c.fragments,
    CASE WHEN c.is_agreed THEN (
        SELECT to_jsonb(r) FROM medusa_market.contract_revision AS r WHERE r.revision = c.revision)
        END AS agreed_terms,
    (SELECT jsonb_agg(to_jsonb(p) ORDER BY p.made_ms DESC) FROM (
        SELECT o.revision, o.proposed_by, medusa.to_ms(o.made_at) AS made_ms,
            medusa.to_ms(o.expires_at) AS expires_ms, o.who, o.because, o.signed_by,
            to_jsonb(r) AS terms, encode(r.document, 'hex') AS document
        FROM open AS o JOIN medusa_market.contract_revision AS r ON r.revision = o.revision
        WHERE o.contract = c.contract ORDER BY o.made_at DESC LIMIT 5
    ) AS p) AS proposals
FROM contract AS c
ORDER BY c.state = 'ended', c.contract LIMIT :most;
