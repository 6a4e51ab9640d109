-- The moves that have not ended, then those that ended last, each with its states, its price and load.
SELECT m.number, m.is_given, m.partner, m.contract, m.fragment, m.state, m.reason,
    m.price::text AS price, round(a.load::numeric, 6)::text AS load, r.currency,
    medusa.to_ms(m.changed_at) AS changed_ms,
    (SELECT json_agg(json_build_array(s.state, medusa.to_ms(s.noted_at), s.reason) ORDER BY s.noted_at)
     FROM medusa_market.move_state AS s WHERE s.move_id = m.move_id) AS states
FROM medusa_market.move AS m
LEFT JOIN medusa_market.agreed_move AS a ON a.move_id = m.agreed_id
LEFT JOIN LATERAL (
    SELECT v.currency FROM medusa_market.contract_revision AS v WHERE v.contract = m.contract
    ORDER BY v.number DESC LIMIT 1
) AS r ON true
ORDER BY m.state = 'ended', m.move_id DESC LIMIT :most;
