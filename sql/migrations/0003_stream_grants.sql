-- A partner reads the streams that the owner has granted to it, and requests their files by hash.
CREATE TABLE medusa.stream_grant (
    stream     text COLLATE "C" NOT NULL,
    partner    text COLLATE "C" NOT NULL,
    granted_by text NOT NULL DEFAULT session_user,
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (stream, partner),
    CONSTRAINT grant_is_of_a_participant CHECK (partner ~ '^[a-z][a-z0-9_]{0,62}$')
);
COMMENT ON TABLE medusa.stream_grant IS
    'Which partner may read which stream through the exchange server: a stream without a row is not '
    'there for a partner.';
CREATE INDEX stream_grant_of_partner ON medusa.stream_grant (partner, stream);
COMMENT ON INDEX medusa.stream_grant_of_partner IS 'What a partner may read.';

CREATE INDEX file_of_hash ON medusa.file (sha256);
COMMENT ON INDEX medusa.file_of_hash IS 'Partners request files by their hash.';
