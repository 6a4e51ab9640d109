-- The sinks of this home as declared, and a copy of how far each target says it has come.
SELECT h.incarnation::text AS home, s.stream, s.name, s.document, s.from_us, s.through_us,
    s.version,
    s.rows, s.lost_us, s.problem, medusa.to_ms(s.delivered_at) AS delivered_at_ms
FROM medusa.home AS h CROSS JOIN medusa.sink AS s ORDER BY s.stream, s.name;
