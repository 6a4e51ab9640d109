-- Fragments that are agreed to be given or taken, or granted, and have not moved yet, in order.
SELECT m.move_id, m.is_given, m.partner, m.contract, m.fragment, m.partition, m.load, m.level,
    m.state, m.round, medusa.to_ms(m.expires_at) AS expires_at_ms
FROM medusa_market.agreed_move AS m WHERE m.state <> 'lapsed'
    AND NOT EXISTS (SELECT FROM medusa_market.move AS o WHERE o.agreed_id = m.move_id
        AND o.state = ANY (CASE WHEN o.is_given THEN ARRAY['released', 'returning']
            ELSE ARRAY['started'] END))
ORDER BY m.move_id
