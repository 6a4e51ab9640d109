-- A fragment whose buckets another participant computes: from which bucket on, and why.
CREATE TABLE medusa.fragment_owner (
    fragment    text COLLATE "C" NOT NULL REFERENCES medusa.fragment,
    partition   integer NOT NULL CHECK (partition >= 0),
    epoch       bigint NOT NULL CHECK (epoch > 0),
    participant text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica     integer NOT NULL CHECK (replica >= 0),
    from_us     bigint NOT NULL,
    timeout_ms bigint NOT NULL CHECK (timeout_ms >= 0),
    because     text NOT NULL,
    noted_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (fragment, partition, epoch)
);
COMMENT ON TABLE medusa.fragment_owner IS
    'Append-only log: who owns a fragment''s buckets from one on. The last line that is for a '
    'bucket counts; without one this home owns it. This home commits what another owner computes.';
COMMENT ON COLUMN medusa.fragment_owner.timeout_ms IS
    'How long after its inputs a bucket of another owner is waited for before it is computed here.';
COMMENT ON COLUMN medusa.fragment_owner.because IS 'Why, with the numbers that decided it.';
