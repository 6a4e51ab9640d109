-- How far each line reaches, where it ends and what of it is trimmed.
SELECT stream, participant, replica, boundary_us, end_us, trimmed_us
FROM medusa.stream_producer ORDER BY stream, participant, replica;
