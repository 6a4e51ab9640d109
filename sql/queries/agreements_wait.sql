-- Whether there is anything to verify, sign, seal, send or let expire.
SELECT EXISTS (SELECT FROM medusa.inbox AS i WHERE i.state = 'received')
    OR EXISTS (SELECT FROM medusa.outbox AS o WHERE o.acknowledged_at IS NULL)
    OR EXISTS (
        SELECT FROM medusa.contract_proposal AS p CROSS JOIN medusa.home AS h
        WHERE p.state = 'open' AND (p.proposed_by = h.participant
            OR p.expires_at <= clock_timestamp()))
