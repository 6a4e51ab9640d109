-- Recipients of Delta Sharing: their tokens, what they may read, and what they used.
CREATE TABLE medusa_market.recipient_token (
    token_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    recipient  text COLLATE "C" NOT NULL,
    hash       bytea NOT NULL UNIQUE,
    issued_by  text NOT NULL DEFAULT session_user,
    issued_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    CONSTRAINT recipient_has_a_name CHECK (medusa_market.is_name(recipient)),
    CONSTRAINT recipient_token_is_a_hash CHECK (octet_length(hash) = 32),
    CONSTRAINT recipient_token_expires
        CHECK (expires_at > issued_at AND expires_at <= issued_at + interval '366 days')
);
COMMENT ON TABLE medusa_market.recipient_token IS
    'Tokens of recipients, as SHA-256 of what they were given.';
COMMENT ON COLUMN medusa_market.recipient_token.revoked_at IS
    'From when on it counts no more; NULL: it was not revoked.';
CREATE INDEX recipient_token_of_recipient ON medusa_market.recipient_token (recipient, expires_at);
COMMENT ON INDEX medusa_market.recipient_token_of_recipient IS 'The tokens of a recipient.';

CREATE TABLE medusa_market.recipient_usage (
    recipient text COLLATE "C" NOT NULL,
    day       date NOT NULL,
    stream    text COLLATE "C" NOT NULL,
    requests  bigint NOT NULL DEFAULT 0 CHECK (requests >= 0),
    rows      bigint NOT NULL DEFAULT 0 CHECK (rows >= 0),
    bytes     bigint NOT NULL DEFAULT 0 CHECK (bytes >= 0),
    last_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (recipient, day, stream)
);
COMMENT ON TABLE medusa_market.recipient_usage IS
    'What each recipient used, by day (UTC) and stream.';
COMMENT ON COLUMN medusa_market.recipient_usage.stream IS
    'The stream; empty for requests that name none, such as lists of tables.';
COMMENT ON COLUMN medusa_market.recipient_usage.rows IS
    'Rows of the files that answers named; the same rows count in each answer.';
COMMENT ON COLUMN medusa_market.recipient_usage.bytes IS 'Bytes of answers and of files, as sent.';

CREATE TABLE medusa.recipient_grant (
    stream     text COLLATE "C" NOT NULL,
    recipient  text COLLATE "C" NOT NULL,
    reason     text NOT NULL,
    granted_by text NOT NULL DEFAULT session_user,
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (stream, recipient, reason),
    CONSTRAINT recipient_grant_has_a_reason
        CHECK (reason IN ('owner', 'recipients', 'public')),
    CONSTRAINT recipient_grant_is_of_a_name
        CHECK (recipient ~ '^[a-z][a-z0-9_]{0,62}$' OR recipient = '*'),
    CONSTRAINT recipient_grant_to_all_is_public CHECK ((recipient = '*') = (reason = 'public')),
    CONSTRAINT recipient_grant_leaves_names_free CHECK (stream !~ '__all$')
);
COMMENT ON TABLE medusa.recipient_grant IS
    'Which recipient may read which stream through Delta Sharing, and why; * is every recipient. Any '
    'other stream is not there for a recipient.';
COMMENT ON COLUMN medusa.recipient_grant.reason IS
    'owner: granted by hand; recipients: the stream''s contract lists the recipient; public: the '
    'stream''s contract says public: true.';
CREATE INDEX recipient_grant_of_recipient ON medusa.recipient_grant (recipient, stream);
COMMENT ON INDEX medusa.recipient_grant_of_recipient IS 'What a recipient may read.';
