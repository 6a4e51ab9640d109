-- The postings of the books in the order in which they were made; of one partner, or of all.
SELECT b.entry_id AS entry, medusa.to_ms(b.made_at) AS made_ms, b.kind, b.partner, b.currency, b.account,
    b.amount, b.contract, b.period, b.statement, b.reference
FROM medusa_api.books AS b
WHERE b.partner = coalesce(:partner, b.partner) ORDER BY b.entry_id, b.account;
