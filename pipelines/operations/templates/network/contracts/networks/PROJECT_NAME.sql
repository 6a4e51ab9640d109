-- A network: traffic by owner, and alerts with the connections around them: PROJECT_NAME.py in SQL.

CREATE NETWORK PROJECT_NAME WITH (bucket = '1m');

CREATE SOURCE connections (at TIMESTAMP, source STRING, port INT, bytes BIGINT)
WITH (time = 'at');

CREATE SOURCE alerts (at TIMESTAMP, source STRING, rule STRING)
WITH (time = 'at');

CREATE SOURCE owners (at TIMESTAMP, source STRING, owner STRING)
WITH (time = 'at');

CREATE VIEW owned AS
SELECT c.source, c.port, c.bytes, o.owner
FROM connections AS c
LEFT JOIN owners FOR SYSTEM_TIME AS OF c.at AS o
    ON c.source = o.source AND o.at >= c.at - INTERVAL '1' DAY;

CREATE STREAM owner_traffic AS
SELECT window_start, owner, count(*) AS connections, count(DISTINCT port) AS ports, sum(bytes) AS bytes
FROM TUMBLE(TABLE owned, INTERVAL '5' MINUTES)
GROUP BY window_start, owner;

CREATE STREAM alerted_connections AS
SELECT a.rule, a.source, c.owner, c.port, c.bytes
FROM alerts AS a
JOIN owned AS c
    ON a.source = c.source
    AND c.stime BETWEEN a.stime - INTERVAL '1' MINUTE AND a.stime + INTERVAL '1' MINUTE;
