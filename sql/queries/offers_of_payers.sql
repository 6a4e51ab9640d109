-- What payers offered this home at a price of their contract, the newest first.
SELECT o.partner, o.contract, r.currency, o.price, o.body, medusa.to_ms(o.made_at) AS at_ms
FROM medusa_market.offer AS o JOIN medusa_market.contract_revision AS r ON r.revision = o.revision
WHERE NOT o.is_own AND o.price IS NOT NULL
    AND o.made_at > timestamptz 'epoch' + CAST(:from_ms AS bigint) * interval '1 millisecond'
ORDER BY o.made_at DESC, o.offer_id DESC LIMIT :most
