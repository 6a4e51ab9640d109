-- Whether there is anything to verify, sign, seal, send or let expire.
SELECT EXISTS (SELECT FROM medusa_market.inbox AS i WHERE i.state = 'received')
    OR EXISTS (
        SELECT FROM medusa_market.outbox AS o
        WHERE o.acknowledged_at IS NULL AND (:to_all OR o.nonce IS NULL OR NOT EXISTS (
            SELECT FROM medusa_market.delivery_pause AS p
            WHERE p.partner = o.receiver AND p.tries_at > clock_timestamp())))
    OR EXISTS (SELECT FROM medusa_market.statement_due)
    OR EXISTS (
        SELECT FROM medusa_market.contract_proposal AS p
        JOIN medusa_market.contract_revision AS r ON r.revision = p.revision
        CROSS JOIN medusa.home AS h
        WHERE p.state = 'open' AND (p.expires_at <= clock_timestamp()
            OR p.proposed_by = h.participant AND NOT EXISTS (
                SELECT FROM medusa_market.contract_signature AS s
                WHERE s.revision = p.revision AND s.party = h.participant
                    AND r.provider = h.participant)
            AND (r.provider = h.participant OR EXISTS (
                SELECT FROM medusa_market.contract_proposal AS o
                JOIN medusa_market.contract_signature AS s
                    ON s.revision = o.revision AND s.party = r.provider
                WHERE o.revision = p.revision AND o.proposed_by = r.provider
                    AND o.state = 'open' AND o.expires_at > clock_timestamp()))))
