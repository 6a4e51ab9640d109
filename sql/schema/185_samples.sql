-- Samples of what moved fragments have computed: commitments, how far they are drawn, what was found.

CREATE TABLE medusa_market.sample_seed (
    move_id      bigint PRIMARY KEY REFERENCES medusa_market.move,
    commitment   bytea NOT NULL CHECK (octet_length(commitment) = 32),
    first_period bigint NOT NULL CHECK (first_period > 0),
    root         bytea CHECK (octet_length(root) = 32)
);
COMMENT ON TABLE medusa_market.sample_seed IS
    'From what the payer of a move draws the buckets that it recomputes; insert-only.';
COMMENT ON COLUMN medusa_market.sample_seed.commitment IS
    'The last link of the chain of hashes that begins with the root, as the payer sent it when the '
    'move began.';
COMMENT ON COLUMN medusa_market.sample_seed.first_period IS
    'The settlement period of the contract to which the first seed belongs.';
COMMENT ON COLUMN medusa_market.sample_seed.root IS
    'In the home of the payer: the secret; NULL in the provider''s.';

CREATE TABLE medusa_market.sample_position (
    move_id    bigint NOT NULL REFERENCES medusa_market.move,
    stream     text COLLATE "C" NOT NULL,
    through_us bigint NOT NULL,
    PRIMARY KEY (move_id, stream)
);
COMMENT ON TABLE medusa_market.sample_position IS
    'Up to which bucket of a stream of a move all that were drawn are recomputed.';

CREATE TABLE medusa_market.sample (
    move_id    bigint NOT NULL REFERENCES medusa_market.move,
    stream     text COLLATE "C" NOT NULL,
    from_us    bigint NOT NULL,
    to_us      bigint NOT NULL,
    outcome    text COLLATE "C" NOT NULL
        CHECK (outcome IN ('equal', 'differs', 'not verifiable')),
    stated     text COLLATE "C" NOT NULL CHECK (char_length(stated) <= 64),
    recomputed text COLLATE "C" NOT NULL CHECK (char_length(recomputed) <= 64),
    reason     text NOT NULL CHECK (char_length(reason) <= 500),
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    version    bigint NOT NULL DEFAULT 0 CHECK (version >= 0),
    PRIMARY KEY (move_id, stream, from_us, version),
    CONSTRAINT sample_is_not_empty CHECK (from_us < to_us),
    CONSTRAINT equal_samples_have_one_digest CHECK ((outcome = 'equal') <= (stated = recomputed)),
    CONSTRAINT others_say_why CHECK ((outcome = 'not verifiable') = (reason <> ''))
);
COMMENT ON TABLE medusa_market.sample IS
    'Buckets that this home has recomputed: the payer those that were drawn, the provider those '
    'that the payer disputes; insert-only.';
COMMENT ON COLUMN medusa_market.sample.stated IS
    'The digest of the provider''s rows, empty for none; see medusa_core/market/bill_statements.py.';
COMMENT ON COLUMN medusa_market.sample.recomputed IS 'The digest of the rows that were recomputed.';
COMMENT ON COLUMN medusa_market.sample.version IS
    'That of the provider''s rows that were looked at, 0 where it is not known: rows that came later '
    'are looked at again, and the newest counts.';
