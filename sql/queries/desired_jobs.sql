-- What shall run in each lane, by the last declaration.
SELECT DISTINCT ON (d.lane) d.number, d.lane::text AS lane, d.is_desired, d.is_lasting, d.because,
    d.who, medusa.to_ms(d.since) AS since_ms
FROM medusa.desired_job AS d ORDER BY d.lane, d.number DESC;
