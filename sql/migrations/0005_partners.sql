-- Partners elsewhere join by invitation, have an address, and may be removed; a key may be succeeded
-- by one that it has signed.
ALTER TABLE medusa_market.party_key ADD COLUMN is_succession boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN medusa_market.party_key.replaces IS
    'The key before; it is replaced by the owner, or by a key that it has signed.';
COMMENT ON COLUMN medusa_market.party_key.is_succession IS
    'The key before has signed this one: for 7 days both count.';

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
