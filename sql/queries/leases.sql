-- Every lease ever taken, held or not, with the clock by which it is judged.
SELECT l.fragment, l.partition, l.participant, l.replica, l.lane::text AS lane, l.epoch, l.holder,
    medusa.to_ms(l.expires_at) AS expires_at_ms, medusa.to_ms(clock_timestamp()) AS read_at_ms
FROM medusa.lease AS l
ORDER BY l.fragment, l.partition, l.participant, l.replica, l.lane;
