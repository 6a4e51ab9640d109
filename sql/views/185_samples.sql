CREATE VIEW medusa_api.samples WITH (security_invoker = true) AS
    SELECT m.contract, m.number, m.partner, m.is_given, m.fragment, s.stream, s.from_us, s.to_us,
        s.outcome, s.stated, s.recomputed, s.reason, s.noted_at
    FROM medusa_market.sample AS s JOIN medusa_market.move AS m ON m.move_id = s.move_id;
COMMENT ON VIEW medusa_api.samples IS
    'Buckets of moved fragments that this home has recomputed: the digest of the provider''s rows, '
    'and that of the rows as they were recomputed here.';
