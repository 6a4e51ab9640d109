-- A bucket whose rows were replaced since is recomputed again; of what was found before it is not known
-- which rows it was about, and it is not looked at again.

ALTER TABLE medusa_market.sample ADD COLUMN version bigint NOT NULL DEFAULT 0 CHECK (version >= 0),
    DROP CONSTRAINT sample_pkey, ADD PRIMARY KEY (move_id, stream, from_us, version);
COMMENT ON COLUMN medusa_market.sample.version IS
    'That of the provider''s rows that were looked at, 0 where it is not known: rows that came later '
    'are looked at again, and the newest counts.';
