-- This home's copy of each contract, as its owner edits it, with the document.
SELECT c.contract, c.state, c.revision, c.active_revision, c.partner_proposes,
    medusa.to_ms(c.expires_at) AS expires_at_ms, medusa.to_ms(c.ends_at) AS ends_at_ms,
    r.document
FROM medusa_api.contract AS c
JOIN medusa_market.contract_revision AS r ON r.revision = c.revision
ORDER BY c.contract
