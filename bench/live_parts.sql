-- The CPU time of a participant's driver by activity since a time: seconds of it, and of the periods
-- in which it was metered.
SELECT coalesce(p.fragment, p.kind::text) AS part, sum(p.cpu_us)::float8 / 1e6 AS cpu_s,
    (SELECT sum(length_ms) FROM medusa_market.load_sample
     WHERE ended_at > to_timestamp(%(since_s)s))::float8 / 1e3 AS metered_s
FROM medusa_market.load_sample AS s JOIN medusa_market.load_part AS p USING (sample_id)
WHERE s.ended_at > to_timestamp(%(since_s)s) GROUP BY 1 ORDER BY 2 DESC;
