-- Partners prove their identity to the exchange server by their keys, and receive access tokens.
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
