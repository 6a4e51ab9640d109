-- Whether a round is due or undecided, or there is an offer or an answer to look at or to end.
SELECT EXISTS (
        SELECT FROM medusa.inbox AS i WHERE i.state = 'verified' AND i.kind IN ('offer', 'answer'))
    OR EXISTS (SELECT FROM medusa.open_offer AS o WHERE NOT o.is_own)
    OR EXISTS (SELECT FROM medusa.open_offer AS o WHERE o.expires_at <= clock_timestamp())
    OR EXISTS (
        SELECT FROM medusa.agreed_move AS m WHERE m.state <> 'lapsed'
            AND m.expires_at <= clock_timestamp())
    OR coalesce((SELECT max(r.number) FROM medusa.round AS r), 0)
        > coalesce((SELECT max(m.decided_round) FROM medusa.market AS m), 0)
    OR medusa.round_is_due()
