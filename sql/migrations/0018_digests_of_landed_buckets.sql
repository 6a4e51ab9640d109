-- A landed file may be named by a segment as it is: its digests are computed when it lands.
ALTER TABLE medusa.landed_bucket
    ADD COLUMN sum_a numeric(50,0),
    ADD COLUMN sum_b numeric(50,0),
    ADD CONSTRAINT landed_bucket_digest_is_whole CHECK (num_nulls(sum_a, sum_b) IN (0, 2)
        AND sum_a >= 0 AND sum_b >= 0);
COMMENT ON COLUMN medusa.landed_bucket.sum_a IS
    'First sum of row hashes, where the file has the form of a segment''s; NULL: not computed.';
COMMENT ON COLUMN medusa.landed_bucket.sum_b IS 'Second sum of row hashes.';
