CREATE VIEW medusa_api.books WITH (security_invoker = true) AS
    SELECT e.entry_id, e.made_at, e.kind, e.partner, e.currency, p.account, p.amount, e.contract,
        e.period, e.revision, e.statement, y.reference
    FROM medusa_market.book_entry AS e
    JOIN medusa_market.book_posting AS p ON p.entry_id = e.entry_id
    LEFT JOIN medusa_market.payment AS y ON y.payment_id = e.payment_id;
COMMENT ON VIEW medusa_api.books IS
    'The postings of this home''s books, with what caused them: a debit is above zero, a credit '
    'below.';

CREATE VIEW medusa_api.accounts WITH (security_invoker = true) AS
    SELECT e.partner, e.currency, p.account, sum(p.amount) AS balance, count(*) AS postings
    FROM medusa_market.book_entry AS e
    JOIN medusa_market.book_posting AS p ON p.entry_id = e.entry_id
    GROUP BY e.partner, e.currency, p.account;
COMMENT ON VIEW medusa_api.accounts IS
    'The balance of each account by partner and currency. That of the account partner is what is '
    'owed over all contracts: above zero by the partner, below zero by this home.';

CREATE VIEW medusa_api.bills WITH (security_invoker = true) AS
    SELECT b.contract, b.period, b.made_by, CASE
            WHEN s.outcome IS NOT NULL THEN 'settled'
            WHEN f.outcome = 'agreed' THEN 'settled'
            WHEN f.outcome = 'disputed' THEN 'disputed'
            WHEN b.made_by = b.provider AND b.made_by = h.participant AND b.total = 0
                AND convert_from(b.document, 'UTF8')::jsonb->'charges' = '[]' THEN 'nothing owed'
            WHEN b.made_by = b.provider THEN 'billed'
            ELSE 'own' END AS state,
        b.payer, b.provider, b.currency, b.total, coalesce(s.amount, f.amount) AS owed,
        CASE WHEN s.outcome IS NULL THEN coalesce(f.blocked, 0) ELSE 0 END AS blocked,
        b.from_ms, b.to_ms, b.revision, b.statement, b.noted_at,
        coalesce(s.noted_at, f.noted_at) AS answered_at
    FROM medusa_market.bill AS b
    CROSS JOIN medusa.home AS h
    LEFT JOIN medusa_market.bill_answer AS f
        ON (f.contract, f.period, f.step, f.statement) = (b.contract, b.period, 1, b.statement)
    LEFT JOIN medusa_market.bill_answer AS s
        ON (s.contract, s.period, s.step, s.statement) = (b.contract, b.period, 2, b.statement);
COMMENT ON VIEW medusa_api.bills IS
    'Statements that this home made and received. Of the provider''s: billed, disputed or settled, '
    'what is owed of it, and what a dispute blocks; own is the payer''s, for comparison.';

CREATE VIEW medusa_api.bill_disputes WITH (security_invoker = true) AS
    SELECT f.contract, f.period, CASE WHEN s.outcome IS NULL THEN 'open' ELSE s.outcome END AS state,
        b.payer, b.provider, b.currency, b.total AS claimed, f.amount AS agreed, f.blocked,
        f.from_us, f.to_us, s.amount AS owed, f.noted_at, s.noted_at AS ended_at
    FROM medusa_market.bill_answer AS f
    JOIN medusa_market.bill AS b ON b.statement = f.statement AND b.made_by = b.provider
    LEFT JOIN medusa_market.bill_answer AS s
        ON (s.contract, s.period, s.step) = (f.contract, f.period, 2)
    WHERE f.outcome = 'disputed';
COMMENT ON VIEW medusa_api.bill_disputes IS
    'Disputes about statements: the first segment in which the two differ, what is blocked, and '
    'whose figures ended it (claimed: the provider''s, own: the payer''s).';

CREATE VIEW medusa_api.payments WITH (security_invoker = true) AS
    SELECT payment_id, partner, currency, amount,
        CASE WHEN is_received THEN 'received' ELSE 'paid' END AS direction, reference, who, noted_at
    FROM medusa_market.payment;
COMMENT ON VIEW medusa_api.payments IS 'Payments as the owner of this home recorded them.';
