-- What was done about agreements, by whom, as a chain of hashes.

CREATE TABLE medusa_market.audit (
    audit_id bigint PRIMARY KEY,
    at       timestamptz NOT NULL,
    who      text NOT NULL,
    what     text NOT NULL,
    subject  text NOT NULL,
    before   jsonb,
    after    jsonb,
    previous bytea NOT NULL CHECK (octet_length(previous) = 32),
    hash     bytea NOT NULL CHECK (octet_length(hash) = 32)
);
COMMENT ON TABLE medusa_market.audit IS
    'Actions on agreements, in order: each line holds the hash of the one before and of '
    'itself; insert-only.';
COMMENT ON COLUMN medusa_market.audit.who IS
    'The login of the action.';

CREATE TABLE medusa_market.audit_head (
    is_only  boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    audit_id bigint NOT NULL,
    hash     bytea NOT NULL
);
COMMENT ON TABLE medusa_market.audit_head IS
    'The last line of the audit: its row is the order in which lines are written, and shows '
    'whether lines at the end are gone.';

CREATE TABLE medusa_market.audit_entry (
    entry_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    what     text NOT NULL,
    subject  text NOT NULL,
    before   jsonb,
    after    jsonb
);
COMMENT ON TABLE medusa_market.audit_entry IS
    'Lines of the audit of transactions that have not ended: empty for all other sessions. '
    'They get their place in the chain at the end, so that an open transaction blocks no other '
    'writer.';
