-- The moves of which a state was noted with a reason that begins with this text, the newest first.
SELECT m.move_id, m.number, m.is_given, m.partner, m.contract, m.fragment, m.state, m.reason,
    medusa.to_ms(m.changed_at) AS changed_at_ms
FROM medusa_market.move AS m
WHERE EXISTS (
    SELECT FROM medusa_market.move_state AS s
    WHERE s.move_id = m.move_id AND starts_with(s.reason, :begins))
ORDER BY m.move_id DESC;
