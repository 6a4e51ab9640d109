-- The newest proposal of this home for each contract, whatever became of it; of those made for one
-- reason, if it is given.
SELECT DISTINCT ON (p.contract) p.contract, p.state, p.because, r.document
FROM medusa_market.contract_proposal AS p
JOIN medusa_market.contract_revision AS r ON r.revision = p.revision
CROSS JOIN medusa.home AS h
WHERE p.proposed_by = h.participant
    AND (CAST(:because AS text) IS NULL OR p.because = CAST(:because AS text))
ORDER BY p.contract, p.proposal_id DESC
