-- The streams that moves of a contract write, and what is committed and recomputed of them.
SELECT s.move_id, s.is_given, s.partner, s.number, s.fragment, s.order_document, s.from_us, s.to_us,
    s.commitment, s.first_period, s.seed, s.stream, s.width_us, s.stable_us, s.through_us, s.open_us,
    s.hold_ms, s.is_held, s.verify
FROM medusa_market.sampled_lines(:contract, :period, :revision, :begins_us) AS s;
