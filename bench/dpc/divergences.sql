-- How many buckets a home has found over which the producers of a stream disagree.
SELECT count(*) AS divergences FROM medusa.divergence WHERE stream = %(stream)s;
