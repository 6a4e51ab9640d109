-- What a provider computes for its payer, and under which name it is metered in this home, in order;
-- and what has returned within window_ms. Of a move by hand no load was stated.
SELECT m.move_id, m.is_given, m.contract, coalesce(a.fragment, replace(m.fragment, '/', '.'))
        AS fragment, coalesce(a.partition, 0) AS partition, coalesce(a.load, 0) AS load,
    coalesce(a.price, r.price_low) AS price, a.round,
    CASE WHEN m.is_given THEN m.fragment
        ELSE concat_ws('/', 'moved', m.partner, m.number, m.fragment) END AS metered_as,
    medusa.to_ms(CASE WHEN m.state = 'ended' THEN m.changed_at ELSE s.noted_at END) AS since_ms,
    m.state = 'ended' AS has_returned
FROM medusa_market.move AS m
JOIN medusa_market.move_state AS s ON s.move_id = m.move_id
    AND s.state = CASE WHEN m.is_given THEN 'released' ELSE 'started' END
LEFT JOIN medusa_market.agreed_move AS a ON a.move_id = m.agreed_id
LEFT JOIN medusa_api.contract_in_force AS c ON c.contract = m.contract
LEFT JOIN medusa_market.contract_revision AS r ON r.revision = c.revision
WHERE m.state IN ('started', 'released', 'returning')
    OR m.state = 'ended' AND m.changed_at
            > clock_timestamp() - CAST(:window_ms AS bigint) * interval '1 millisecond'
        AND NOT EXISTS (SELECT FROM medusa_market.move AS o
            WHERE (o.is_given, o.fragment) = (m.is_given, m.fragment)
                AND (o.is_given OR o.partner = m.partner) AND o.move_id > m.move_id)
ORDER BY m.move_id
