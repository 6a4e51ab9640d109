-- What a provider computes for its payer as was agreed in a round, and under which name it is
-- metered in this home, in order.
SELECT m.move_id, m.is_given, a.contract, a.fragment, a.partition, a.load, a.price,
    CASE WHEN m.is_given THEN m.fragment
        ELSE concat_ws('/', 'moved', m.partner, m.number, m.fragment) END AS metered_as,
    medusa.to_ms(s.noted_at) AS since_ms
FROM medusa_market.move AS m
JOIN medusa_market.agreed_move AS a ON a.move_id = m.agreed_id
JOIN medusa_market.move_state AS s ON s.move_id = m.move_id
    AND s.state = CASE WHEN m.is_given THEN 'released' ELSE 'started' END
WHERE m.state IN ('started', 'released', 'returning')
ORDER BY m.move_id
