-- Providers' answers to this home's offers, and offers without one, the newest first, with
-- the prices of the revision that was quoted. That a contract does not allow an offer (terms) says
-- nothing of what its provider would carry, and at which price.
SELECT o.partner, r.currency, medusa.to_ms(s.answered_at) AS at_ms, o.level, o.price, s.is_more,
    s.reason, s.load, s.rooms, r.price_low, r.price_high, r.price_step
FROM (
    SELECT a.offer_id, a.answer_id, a.made_at AS answered_at, a.is_more, a.reason, a.load, a.rooms
    FROM medusa_market.answer AS a
    WHERE NOT a.is_own AND a.reason IN ('taken', 'full', 'load_max')
    UNION ALL
    SELECT l.offer_id, NULL, l.lapsed_at, false, NULL, 0, '[]' FROM medusa_market.offer_lapse AS l
) AS s
JOIN medusa_market.offer AS o ON o.offer_id = s.offer_id AND o.is_own
JOIN medusa_market.contract_revision AS r ON r.revision = o.revision
WHERE s.answered_at > timestamptz 'epoch' + CAST(:from_ms AS bigint) * interval '1 millisecond'
ORDER BY s.answered_at DESC, s.answer_id DESC LIMIT :most
