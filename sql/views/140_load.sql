CREATE VIEW medusa_api.cost WITH (security_invoker = true) AS
SELECT kind, capacity, scale, points, threshold, currency, number, set_at, set_by
FROM medusa_market.cost_function ORDER BY number DESC LIMIT 1;
COMMENT ON VIEW medusa_api.cost IS
    'The cost of load of this participant: INSERT or UPDATE it as the owner; no other role '
    'sees it.';
CREATE TRIGGER set_cost INSTEAD OF INSERT OR UPDATE OR DELETE ON medusa_api.cost
    FOR EACH ROW EXECUTE FUNCTION medusa_market.set_cost();

CREATE VIEW medusa_api.load_samples WITH (security_invoker = true) AS
SELECT s.sample_id, s.driver, s.lane, s.ended_at, s.length_ms, p.kind, p.fragment, p.partition,
    p.cause, p.cpu_us, p.cpu_us / (s.length_ms * 1000.0) AS load
FROM medusa_market.load_sample AS s JOIN medusa_market.load_part AS p ON p.sample_id = s.sample_id
UNION ALL
SELECT s.sample_id, s.driver, s.lane, s.ended_at, s.length_ms, NULL, NULL, NULL, NULL, s.total_us,
    s.total_us / (s.length_ms * 1000.0)
FROM medusa_market.load_sample AS s;
COMMENT ON VIEW medusa_api.load_samples IS
    'CPU time of drivers, period by period: a row for each fragment and kind, and without kind '
    'the total. Load is in CPU seconds per second.';
