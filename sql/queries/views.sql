-- The views of streams, by name; of each where it begins now, how long it is kept without being used,
-- and whether that is over.
SELECT v.name, v.stream, v.records, v.duration_us, v.from_us, v.to_us,
    CASE WHEN v.from_us IS NULL THEN
        greatest(h.from_us, medusa.view_begins(v.stream, v.records, v.duration_us))
        ELSE h.from_us END AS begins_us,
    h.limit_ms, medusa.to_ms(h.placed_at) AS used_at_ms,
    coalesce(NOT medusa.is_held(h), true) AS is_expired
FROM medusa.stream_view AS v
LEFT JOIN medusa.hold AS h
    ON (h.stream, h.holder, h.purpose) = (v.stream, 'view:' || v.name, 'view')
ORDER BY v.name;
