-- Revisions that this home is to sign now: the provider what it proposes, the payer what it
-- proposes and the provider has signed and still offers.
SELECT p.revision
FROM medusa_market.contract_proposal AS p
JOIN medusa_market.contract_revision AS r ON r.revision = p.revision
CROSS JOIN medusa.home AS h
WHERE p.state = 'open' AND p.proposed_by = h.participant AND p.expires_at > clock_timestamp()
    AND NOT EXISTS (
        SELECT FROM medusa_market.contract_signature AS s
        WHERE s.revision = p.revision AND s.party = h.participant AND r.provider = h.participant)
    AND (r.provider = h.participant OR EXISTS (
        SELECT FROM medusa_market.contract_proposal AS o
        JOIN medusa_market.contract_signature AS s ON s.revision = o.revision
            AND s.party = r.provider
        WHERE o.revision = p.revision AND o.proposed_by = r.provider AND o.state = 'open'
            AND o.expires_at > clock_timestamp()))
ORDER BY p.proposal_id
