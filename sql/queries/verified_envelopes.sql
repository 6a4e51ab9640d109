-- Envelopes of a kind that are their senders' and have not been handled, in order.
SELECT i.envelope_id, i.kind, i.sender, i.receiver, i.nonce, i.sent_at_ms, i.expires_at_ms, i.body,
    i.signature, medusa.to_ms(i.received_at) AS received_at_ms
FROM medusa_market.inbox AS i WHERE i.state = 'verified' AND i.kind = :kind
ORDER BY i.envelope_id LIMIT :envelopes_max
