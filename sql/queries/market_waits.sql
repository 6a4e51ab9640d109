-- Whether a round is due or undecided, or there is an offer or an answer to look at or to end.
SELECT EXISTS (
        SELECT FROM medusa_market.inbox AS i
            WHERE i.state = 'verified' AND i.kind IN ('offer', 'answer'))
    OR EXISTS (SELECT FROM medusa_market.open_offer AS o WHERE NOT o.is_own)
    OR EXISTS (SELECT FROM medusa_market.open_offer AS o WHERE o.expires_at <= clock_timestamp())
    OR EXISTS (
        SELECT FROM medusa_market.agreed_move AS m WHERE m.state <> 'lapsed'
            AND m.expires_at <= clock_timestamp()
            AND NOT EXISTS (SELECT FROM medusa_market.move AS o WHERE o.agreed_id = m.move_id))
    OR coalesce((SELECT max(r.number) FROM medusa_market.round AS r), 0)
        > coalesce((SELECT max(m.decided_round) FROM medusa_market.market AS m), 0)
    OR medusa_market.round_is_due()
