CREATE VIEW medusa_api.samples WITH (security_invoker = true) AS
    SELECT m.contract, m.number, m.partner, m.is_given, m.fragment, s.stream, s.from_us, s.to_us,
        s.outcome, s.stated, s.recomputed, s.reason, s.noted_at, s.version
    FROM medusa_market.sample AS s JOIN medusa_market.move AS m ON m.move_id = s.move_id
    WHERE NOT EXISTS (SELECT FROM medusa_market.sample AS n
        WHERE (n.move_id, n.stream, n.from_us) = (s.move_id, s.stream, s.from_us)
            AND n.version > s.version);
COMMENT ON VIEW medusa_api.samples IS
    'Buckets of moved fragments that this home has recomputed: the digest of the provider''s rows, '
    'and that of the rows as they were recomputed here; of rows that were replaced the newest.';
