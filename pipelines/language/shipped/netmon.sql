-- The network-monitoring query of the Borealis demonstration: netmon.py in SQL.
--
-- Per source address and minute of a connection log: how many connections, to how many ports. Out
-- come busy sources, those that look like a port scan, and how many scanners share a /24 (IPv4 only).

CREATE NETWORK netmon;

CREATE SOURCE connections (ts_us BIGINT, orig_h STRING, resp_p INT) WITH (time = 'ts_us');

CREATE VIEW per_source AS
SELECT unix_seconds(window_start) AS window_start, orig_h,
       count(*) AS connections, count(DISTINCT resp_p) AS distinct_ports
FROM TUMBLE(TABLE connections, DESCRIPTOR(ts_us), INTERVAL '60' SECOND)
GROUP BY window_start, orig_h;

CREATE STREAM busy_sources AS
SELECT * FROM per_source WHERE connections > 100;

CREATE STREAM scanning_sources AS
SELECT * FROM per_source WHERE distinct_ports > 10;

CREATE STREAM scanning_prefixes AS
WITH ipv4 AS (
    SELECT substring_index(orig_h, '.', 3) || '.0/24' AS prefix24
    FROM scanning_sources
    WHERE NOT contains(orig_h, ':')
)
SELECT unix_seconds(window_start) AS window_start, prefix24, count(*) AS ips
FROM TUMBLE(TABLE ipv4, INTERVAL '60' SECOND)
GROUP BY window_start, prefix24;
