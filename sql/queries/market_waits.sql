-- Whether a round is due or undecided, or there is an offer or an answer to look at or to end.
SELECT EXISTS (
        SELECT FROM medusa.inbox AS i WHERE i.state = 'verified' AND i.kind IN ('offer', 'answer'))
    OR EXISTS (SELECT FROM medusa.open_offer AS o WHERE NOT o.is_own)
    OR EXISTS (SELECT FROM medusa.open_offer AS o WHERE o.expires_at <= clock_timestamp())
    OR EXISTS (
        SELECT FROM medusa.agreed_move AS m WHERE m.state <> 'lapsed'
            AND m.expires_at <= clock_timestamp())
    OR (
        SELECT coalesce(max(r.number), 0) > coalesce(max(m.decided_round), 0)
            OR coalesce(max(r.opened_at) + coalesce(max(m.round_ms), 60000) * interval '1 ms'
                <= clock_timestamp(), true)
        FROM (SELECT 1) AS one LEFT JOIN medusa.market AS m ON true
        LEFT JOIN LATERAL (
            SELECT o.number, o.opened_at FROM medusa.round AS o
            ORDER BY o.number DESC LIMIT 1) AS r ON true)
