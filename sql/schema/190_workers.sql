-- Workers: processes of this participant that share the partitions of its fragments. Who computes a
-- partition is decided by its lease alone; where it is placed says which worker asks for that lease.

CREATE TABLE medusa.worker (
    name       text COLLATE "C" PRIMARY KEY CONSTRAINT worker_has_a_name
        CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    holder     text NOT NULL,
    busy       double precision NOT NULL CHECK (busy >= 0 AND busy <= 1),
    pace       double precision NOT NULL CHECK (pace > 0),
    expires_at timestamptz NOT NULL
);
COMMENT ON TABLE medusa.worker IS
    'The processes that take partitions of fragments; one is gone once it has expired.';
COMMENT ON COLUMN medusa.worker.holder IS 'How its leases name their holder.';
COMMENT ON COLUMN medusa.worker.busy IS 'The share of the time in which it had something to do.';
COMMENT ON COLUMN medusa.worker.pace IS
    'How long it is busy per CPU second, when it was last measured; 1 before.';

CREATE TABLE medusa.placement (
    fragment  text COLLATE "C" PRIMARY KEY REFERENCES medusa.fragment,
    worker    text COLLATE "C" NOT NULL,
    number    bigint NOT NULL,
    placed_at timestamptz NOT NULL,
    because   text NOT NULL
);
COMMENT ON TABLE medusa.placement IS 'Which worker asks for the lease of a partition, and why.';
COMMENT ON COLUMN medusa.placement.number IS
    'Counts the decisions about placements of the home: a decision is made on the newest one.';
