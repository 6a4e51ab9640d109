-- All moves with their states, the newest first.
SELECT m.move_id, m.number, m.is_given, m.partner, m.contract, m.fragment, m.state, m.reason,
    medusa.to_ms(m.changed_at) AS changed_at_ms
FROM medusa_market.move AS m ORDER BY m.move_id DESC LIMIT :moves_max;
