-- What this home had agreed to give, at which price, and from when until when; the newest first.
SELECT m.partner, m.price, m.load, medusa.to_ms(m.agreed_at) AS from_ms,
    medusa.to_ms(u.until) AS until_ms
FROM medusa_market.agreed_move AS m
CROSS JOIN LATERAL (SELECT coalesce(m.ended_at,
    CASE WHEN EXISTS (SELECT FROM medusa_market.move AS o WHERE o.agreed_id = m.move_id)
        THEN clock_timestamp() ELSE m.expires_at END) AS until) AS u
WHERE m.is_given AND u.until
    > timestamptz 'epoch' + CAST(:from_ms AS bigint) * interval '1 millisecond'
ORDER BY m.move_id DESC LIMIT :most
