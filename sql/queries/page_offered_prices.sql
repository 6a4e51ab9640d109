-- The last offer and its answer under each movement contract that is in force, with its range of prices.
SELECT c.contract, c.payer, c.provider, c.currency, r.price_low::text AS price_low,
    r.price_high::text AS price_high, r.load_max::text AS load_max, r.fragments,
    o.price::text AS price, o.state AS offer_state, o.accepted, o.reason, o.because,
    medusa.to_ms(o.made_at) AS offered_ms
FROM medusa_api.contract_in_force AS c
JOIN medusa_market.contract_revision AS r ON r.revision = c.revision
LEFT JOIN LATERAL (
    SELECT * FROM medusa_api.offers AS f WHERE f.contract = c.contract
    ORDER BY f.offer_id DESC LIMIT 1
) AS o ON true
WHERE c.kind = 'movement' ORDER BY c.contract LIMIT :most;
