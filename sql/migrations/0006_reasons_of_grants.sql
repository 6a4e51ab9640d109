-- A grant has a reason, and a stream may be granted to a partner for several: what the contracts no
-- longer say is withdrawn, and what the owner granted by hand stays.
ALTER TABLE medusa.stream_grant
    ADD COLUMN reason text NOT NULL DEFAULT 'owner',
    ADD CONSTRAINT grant_has_a_reason CHECK (reason IN ('reading', 'readers', 'owner')),
    DROP CONSTRAINT stream_grant_pkey,
    ADD PRIMARY KEY (stream, partner, reason);
COMMENT ON TABLE medusa.stream_grant IS
    'Which partner may read which stream through the exchange server, and why. A content contract in '
    'force grants its stream without a row; any other stream is not there for a partner.';
COMMENT ON COLUMN medusa.stream_grant.reason IS
    'reading: a fragment of the partner reads it, by the contracts; readers: the stream''s contract '
    'lists the partner; owner: granted by hand.';
