-- Rooms: what their thermometers say, by room, and heating with open windows: PROJECT_NAME.py in SQL.

CREATE NETWORK PROJECT_NAME WITH (bucket = '1m');

CREATE SOURCE readings (at TIMESTAMP, sensor STRING, decicelsius INT)
WITH (time = 'at');

CREATE SOURCE openings (at TIMESTAMP, room STRING, window INT)
WITH (time = 'at');

CREATE SOURCE places (at TIMESTAMP, sensor STRING, room STRING)
WITH (time = 'at');

CREATE VIEW placed AS
SELECT r.sensor, r.decicelsius, p.room
FROM readings AS r
JOIN places FOR SYSTEM_TIME AS OF r.at AS p
    ON r.sensor = p.sensor AND p.at >= r.at - INTERVAL '1' DAY;

CREATE STREAM room_temperatures AS
SELECT window_start, room, count(*) AS readings, min(decicelsius) AS lowest,
       max(decicelsius) AS highest, round(avg(decicelsius), 1) AS mean
FROM HOP(TABLE placed, INTERVAL '5' MINUTES, INTERVAL '10' MINUTES)
GROUP BY window_start, room;

CREATE STREAM cooled_rooms AS
WITH cold AS (SELECT room, decicelsius FROM placed WHERE decicelsius < 185)
SELECT c.room, c.decicelsius, o.window
FROM cold AS c
JOIN openings AS o
    ON c.room = o.room AND o.stime BETWEEN c.stime - INTERVAL '5' MINUTES AND c.stime;
