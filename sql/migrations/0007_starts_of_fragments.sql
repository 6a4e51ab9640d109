-- A network that is deployed late may start at a bucket behind the origin of what it reads.
ALTER TABLE medusa.fragment ADD COLUMN starts_us bigint;
COMMENT ON COLUMN medusa.fragment.starts_us IS
    'The first bucket that is computed; NULL: that of the origin of its inputs.';
COMMENT ON TABLE medusa.network IS
    'Query networks as last deployed here; of one that only imports a stream, its lineage.';
