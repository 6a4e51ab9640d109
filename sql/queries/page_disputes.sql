-- Disputes that are open, then those that ended last, with both statements and their digests.
SELECT d.contract, d.period, d.state, d.payer, d.provider, d.currency, d.claimed::text AS claimed,
    d.agreed::text AS agreed, d.blocked::text AS blocked, d.owed::text AS owed, d.from_us, d.to_us,
    f.statement,
    encode(sha256(f.own), 'hex') AS own_statement, encode(b.document, 'hex') AS document,
    encode(f.own, 'hex') AS own_document
FROM medusa_api.bill_disputes AS d
JOIN medusa_market.bill_answer AS f ON (f.contract, f.period, f.step) = (d.contract, d.period, 1)
JOIN medusa_market.bill AS b ON b.statement = f.statement AND b.made_by = b.provider
ORDER BY d.state <> 'open', d.noted_at DESC LIMIT :most;
