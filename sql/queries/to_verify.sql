-- Envelopes that came and have not been looked at, or wait for something: of each sender in order,
-- of all senders in turn, about contracts before offers, so that none waits behind another's many.
SELECT i.envelope_id, i.kind, i.sender, i.receiver, i.nonce, i.sent_at_ms, i.expires_at_ms, i.body,
    i.signature, medusa.to_ms(i.received_at) AS received_at_ms
FROM (
    SELECT w.envelope_id, row_number() OVER (
        PARTITION BY w.sender, medusa_market.room_of(w.kind), w.came_from
            ORDER BY w.envelope_id) AS place
    FROM medusa_market.inbox AS w WHERE w.state = 'received'
) AS w
JOIN medusa_market.inbox AS i ON i.envelope_id = w.envelope_id
ORDER BY w.place, medusa_market.room_of(i.kind), w.envelope_id LIMIT :envelopes_max
