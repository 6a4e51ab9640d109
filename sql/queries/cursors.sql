-- The cursors of this home by stream and name, with the chain that the line has at their versions now
-- and the incarnation that the home has now.
SELECT c.stream, c.name, p.participant, p.replica, c.version, encode(c.chain, 'hex') AS chain,
    encode(v.chain, 'hex') AS chain_here, c.incarnation::text AS incarnation,
    h.incarnation::text AS incarnation_here, c.from_us, medusa.to_ms(c.placed_at) AS placed_at_ms,
    medusa.to_ms(c.moved_at) AS moved_at_ms, p.last_version, v.stable_us
FROM medusa.cursor AS c
JOIN medusa.stream_producer AS p ON p.line_id = c.line_id
CROSS JOIN medusa.home AS h
LEFT JOIN medusa.line_version AS v ON (v.line_id, v.version) = (c.line_id, c.version)
ORDER BY c.stream, c.name;
