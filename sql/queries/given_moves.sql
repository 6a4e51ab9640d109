-- What this home had agreed to give, at which price, and from when until when; the newest first.
SELECT m.partner, m.price, m.load, medusa.to_ms(m.agreed_at) AS from_ms,
    medusa.to_ms(coalesce(m.ended_at, m.expires_at)) AS until_ms
FROM medusa_market.agreed_move AS m
WHERE m.is_given AND coalesce(m.ended_at, m.expires_at)
    > timestamptz 'epoch' + CAST(:from_ms AS bigint) * interval '1 millisecond'
ORDER BY m.move_id DESC LIMIT :most
