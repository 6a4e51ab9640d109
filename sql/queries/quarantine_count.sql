-- How many records are in quarantine.
SELECT count(*) AS records FROM medusa.quarantine;
