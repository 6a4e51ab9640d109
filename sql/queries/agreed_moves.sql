-- Fragments that are agreed to be given or taken, or granted, in order.
SELECT m.move_id, m.is_given, m.partner, m.contract, m.fragment, m.partition, m.load, m.level,
    m.state, m.round, medusa.to_ms(m.expires_at) AS expires_at_ms
FROM medusa_market.agreed_move AS m WHERE m.state <> 'lapsed'
ORDER BY m.move_id
