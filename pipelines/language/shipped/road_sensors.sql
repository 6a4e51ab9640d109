-- Traffic on the roads of a city, from sensors that each watch one stretch of road: road_sensors.py
-- in SQL.
--
-- Per sensor and quarter of an hour: readings, vehicles, lowest and highest average speed. Two
-- streams come out: segments with many vehicles, and per window how many segments were full and
-- slow. `window_start` is in Unix seconds.

CREATE NETWORK road_sensors WITH (bucket = '5m');

CREATE SOURCE readings (ts_us BIGINT, report_id INT, avg_speed INT, vehicle_count INT)
WITH (time = 'ts_us');

CREATE VIEW per_segment AS
SELECT window_start, report_id, count(*) AS readings, sum(vehicle_count) AS vehicles,
       min(avg_speed) AS min_speed, max(avg_speed) AS max_speed
FROM TUMBLE(TABLE readings, DESCRIPTOR(ts_us), INTERVAL '15' MINUTE)
GROUP BY window_start, report_id;

CREATE STREAM busy_segments AS
SELECT unix_seconds(window_start) AS window_start, report_id, readings, vehicles, min_speed,
       max_speed
FROM per_segment
WHERE vehicles > 100;

CREATE STREAM slow_segments AS
SELECT unix_seconds(window_start) AS window_start, count(*) AS segments
FROM TUMBLE(
    TABLE (SELECT * FROM per_segment WHERE vehicles > 30 AND max_speed < 20),
    INTERVAL '15' MINUTE)
GROUP BY window_start;
