-- The newest proposal of this home for each contract, whatever became of it, and who made it.
SELECT DISTINCT ON (p.contract) p.contract, p.state, p.because, r.document
FROM medusa.contract_proposal AS p
JOIN medusa.contract_revision AS r ON r.revision = p.revision
CROSS JOIN medusa.home AS h
WHERE p.proposed_by = h.participant
ORDER BY p.contract, p.proposal_id DESC
