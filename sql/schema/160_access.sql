-- Access of partners: how long each has proved its identity, and which streams it may read.
--
-- A partner proves its identity to the exchange server with an assertion that it signs and that
-- counts once; it receives a random token, of which only the hash is stored. A token ends with its
-- time, when it is revoked, and as soon as the key no longer counts under which it was issued.

CREATE TABLE medusa_market.access_token (
    hash       bytea PRIMARY KEY,
    partner    text COLLATE "C" NOT NULL,
    public_key bytea NOT NULL,
    issued_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    CONSTRAINT token_is_a_hash CHECK (octet_length(hash) = 32),
    CONSTRAINT token_is_of_a_participant CHECK (medusa_market.is_name(partner)),
    CONSTRAINT token_is_of_a_key CHECK (octet_length(public_key) = 32),
    CONSTRAINT token_is_short_lived
        CHECK (expires_at > issued_at AND expires_at <= issued_at + interval '1 hour')
);
COMMENT ON TABLE medusa_market.access_token IS
    'Access tokens of partners, as SHA-256 of what they were given; a row is removed when the token '
    'is revoked or has expired.';
COMMENT ON COLUMN medusa_market.access_token.public_key IS
    'The key by which the partner proved its identity.';
CREATE INDEX access_token_of_partner ON medusa_market.access_token (partner, expires_at);
COMMENT ON INDEX medusa_market.access_token_of_partner IS 'The tokens of a partner, oldest first.';

CREATE TABLE medusa_market.used_assertion (
    partner    text COLLATE "C" NOT NULL,
    nonce      text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (partner, nonce),
    CONSTRAINT assertion_is_of_a_participant CHECK (medusa_market.is_name(partner)),
    CONSTRAINT assertion_has_a_short_nonce CHECK (char_length(nonce) BETWEEN 1 AND 64),
    CONSTRAINT assertion_is_forgotten CHECK (expires_at < 'infinity')
);
COMMENT ON TABLE medusa_market.used_assertion IS
    'Assertions that a token was issued for, until they are stale: one counts once.';
CREATE INDEX used_assertion_expires ON medusa_market.used_assertion (partner, expires_at);
COMMENT ON INDEX medusa_market.used_assertion_expires IS 'The stale assertions of a partner.';

CREATE TABLE medusa.stream_grant (
    stream     text COLLATE "C" NOT NULL,
    partner    text COLLATE "C" NOT NULL,
    granted_by text NOT NULL DEFAULT session_user,
    granted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    reason     text NOT NULL DEFAULT 'owner',
    PRIMARY KEY (stream, partner, reason),
    CONSTRAINT grant_is_of_a_participant CHECK (partner ~ '^[a-z][a-z0-9_]{0,62}$'),
    CONSTRAINT grant_has_a_reason CHECK (reason IN ('reading', 'readers', 'owner'))
);
COMMENT ON TABLE medusa.stream_grant IS
    'Which partner may read which stream through the exchange server, and why. A content contract in '
    'force grants its stream without a row; any other stream is not there for a partner.';
COMMENT ON COLUMN medusa.stream_grant.reason IS
    'reading: a fragment of the partner reads it, by the contracts; readers: the stream''s contract '
    'lists the partner; owner: granted by hand.';
CREATE INDEX stream_grant_of_partner ON medusa.stream_grant (partner, stream);
COMMENT ON INDEX medusa.stream_grant_of_partner IS 'What a partner may read.';

CREATE INDEX file_of_hash ON medusa.file (sha256);
COMMENT ON INDEX medusa.file_of_hash IS 'Partners request files by their hash.';

CREATE TABLE medusa_market.partner (
    participant  text COLLATE "C" PRIMARY KEY,
    url          text,
    pin          text,
    is_removed   boolean NOT NULL DEFAULT false,
    changed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_by   text NOT NULL DEFAULT session_user,
    confirmed_at timestamptz,
    lapses_at    timestamptz,
    heard_at     timestamptz,
    CONSTRAINT partner_is_a_participant CHECK (medusa_market.is_name(participant)),
    CONSTRAINT partner_has_an_address
        CHECK (url ~ '^https://[0-9A-Za-z.:\[\]-]+$' AND char_length(url) <= 270
            AND pin ~ '^[0-9a-f]{64}$' AND (pin IS NULL OR url IS NOT NULL)),
    CONSTRAINT partner_is_confirmed_or_lapses
        CHECK (confirmed_at IS NOT NULL OR lapses_at IS NOT NULL)
);
COMMENT ON TABLE medusa_market.partner IS
    'Partners elsewhere, with the address of their exchange servers, and partners that were removed. '
    'A partner in the same folder has no row.';
COMMENT ON COLUMN medusa_market.partner.url IS
    'Where its exchange server is reached; NULL: nowhere, it only reads here.';
COMMENT ON COLUMN medusa_market.partner.pin IS
    'The SHA-256 of the key of its certificate; NULL: the certificate of a public authority.';
COMMENT ON COLUMN medusa_market.partner.confirmed_at IS
    'When it first proved that it has its key; NULL: not yet, and it is no partner after lapses_at.';
COMMENT ON COLUMN medusa_market.partner.heard_at IS
    'When it last received a token.';

CREATE TABLE medusa_market.invitation (
    secret_hash  bytea PRIMARY KEY,
    partner      text COLLATE "C" NOT NULL UNIQUE,
    replaces_key boolean NOT NULL,
    public_key   bytea,
    invited_by   text NOT NULL DEFAULT session_user,
    invited_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz NOT NULL,
    CONSTRAINT invitation_is_a_hash CHECK (octet_length(secret_hash) = 32),
    CONSTRAINT invitation_is_of_a_participant CHECK (medusa_market.is_name(partner)),
    CONSTRAINT invitation_is_used_with_a_key CHECK (octet_length(public_key) = 32),
    CONSTRAINT invitation_expires
        CHECK (expires_at > invited_at AND expires_at <= invited_at + interval '31 days')
);
COMMENT ON TABLE medusa_market.invitation IS
    'Invitations that are open, by the SHA-256 of their secret: one for each invited participant.';
COMMENT ON COLUMN medusa_market.invitation.replaces_key IS
    'Whether the partner may join with another key than the one that is known here.';
COMMENT ON COLUMN medusa_market.invitation.public_key IS
    'The key of the participant that used it, which may use it again; NULL: it is unused.';

CREATE TABLE medusa_market.link (
    partner        text COLLATE "C" NOT NULL,
    side           text NOT NULL,
    state          text NOT NULL,
    state_since    timestamptz NOT NULL,
    error          text,
    failed_at      timestamptz,
    answered_at    timestamptz,
    requests       bigint NOT NULL DEFAULT 0,
    failures       bigint NOT NULL DEFAULT 0,
    files          bigint NOT NULL DEFAULT 0,
    bytes_received bigint NOT NULL DEFAULT 0,
    bytes_sent     bigint NOT NULL DEFAULT 0,
    answer_ms      bigint,
    answer_ms_max  bigint,
    delay_ms       bigint,
    delay_ms_max   bigint,
    counted_since  timestamptz NOT NULL DEFAULT clock_timestamp(),
    reported_at    timestamptz NOT NULL,
    PRIMARY KEY (partner, side),
    CONSTRAINT link_is_with_a_participant CHECK (medusa_market.is_name(partner)),
    CONSTRAINT link_has_a_side CHECK (side IN ('client', 'server')),
    CONSTRAINT link_has_a_state CHECK (state IN ('reachable', 'refused', 'unreachable')),
    CONSTRAINT link_has_a_short_error CHECK (char_length(error) <= 1000),
    CONSTRAINT link_has_counted CHECK (requests >= 0 AND failures >= 0 AND files >= 0
        AND bytes_received >= 0 AND bytes_sent >= 0),
    CONSTRAINT link_has_taken_time CHECK (answer_ms >= 0 AND answer_ms_max >= answer_ms
        AND delay_ms >= 0 AND delay_ms_max >= delay_ms)
);
COMMENT ON TABLE medusa_market.link IS
    'Links with partners as the processes of this home report them, at most once in some seconds: '
    'its driver for the requests that it makes (client), its exchange server for those that it '
    'answers (server).';
COMMENT ON COLUMN medusa_market.link.state IS
    'client: whether the partner''s server answered the last request; refused: it issues no access '
    'token. server: reachable.';
COMMENT ON COLUMN medusa_market.link.error IS 'Of the last request that failed, at failed_at.';
COMMENT ON COLUMN medusa_market.link.answer_ms IS
    'Median of the last 100 answers, answer_ms_max their maximum; without the time for which a '
    'request waits for news. client: until an answer has arrived; server: inside.';
COMMENT ON COLUMN medusa_market.link.delay_ms IS
    'client: median of the last 100 news, delay_ms_max their maximum: the time from the partner''s '
    'commit to the commit of its copy in this home, as a sum of durations.';
COMMENT ON COLUMN medusa_market.link.counted_since IS 'Since when requests and bytes are counted.';
