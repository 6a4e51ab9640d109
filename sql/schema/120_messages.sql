-- What travels between partners about agreements, offers and answers.

CREATE TABLE medusa_market.inbox (
    envelope_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sender        text COLLATE "C" NOT NULL,
    receiver      text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL,
    nonce         text COLLATE "C" NOT NULL,
    sent_at_ms    bigint NOT NULL,
    expires_at_ms bigint NOT NULL,
    body          bytea NOT NULL CHECK (octet_length(body) <= 98304),
    signature     bytea NOT NULL,
    hash          bytea NOT NULL UNIQUE,
    repeats       bigint NOT NULL DEFAULT 0,
    state         text NOT NULL DEFAULT 'received'
        CHECK (state IN ('received', 'verified', 'handled', 'refused')),
    reason        text,
    received_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at      timestamptz,
    bytes         integer NOT NULL DEFAULT 0,
    came_from     inet NOT NULL DEFAULT '0.0.0.0',
    CONSTRAINT refused_with_a_reason CHECK ((state = 'refused') <= (reason IS NOT NULL))
);
COMMENT ON TABLE medusa_market.inbox IS
    'Envelopes as they arrived from partners: nothing in them counts before this home''s own '
    'program has verified them; refused ones are kept for a while, with the reason.';
COMMENT ON COLUMN medusa_market.inbox.hash IS
    'Of the whole envelope: the same one again is no second.';
COMMENT ON COLUMN medusa_market.inbox.body IS
    'Empty once it has been handled or refused.';
COMMENT ON COLUMN medusa_market.inbox.bytes IS 'How long the body was.';
COMMENT ON COLUMN medusa_market.inbox.came_from IS
    'The address of the login that put it in: before it is verified, all else may be made up.';
COMMENT ON COLUMN medusa_market.inbox.repeats IS
    'How often the same envelope arrived again; of a refused one, how many similar ones '
    'followed it.';
COMMENT ON COLUMN medusa_market.inbox.reason IS
    'Why it was refused, or why it waits.';
CREATE INDEX inbox_received
    ON medusa_market.inbox (sender, medusa_market.room_of(kind), came_from, envelope_id)
    WHERE state = 'received';
COMMENT ON INDEX medusa_market.inbox_received IS
    'Envelopes to be verified.';
CREATE UNIQUE INDEX inbox_nonce ON medusa_market.inbox (sender, nonce)
    WHERE state IN ('verified', 'handled');
COMMENT ON INDEX medusa_market.inbox_nonce IS 'A nonce counts once.';
CREATE INDEX inbox_of_sender ON medusa_market.inbox (sender, medusa_market.room_of(kind))
    WHERE state IN ('verified', 'handled');
COMMENT ON INDEX medusa_market.inbox_of_sender IS 'How much of a sender is kept.';
CREATE INDEX inbox_refused ON medusa_market.inbox (sender, envelope_id) WHERE state = 'refused';
COMMENT ON INDEX medusa_market.inbox_refused IS
    'Envelopes that may be removed, by sender.';
CREATE INDEX inbox_counted ON medusa_market.inbox (expires_at_ms)
    WHERE state IN ('verified', 'handled');
COMMENT ON INDEX medusa_market.inbox_counted IS
    'Envelopes that would be stale if they were repeated.';

CREATE TABLE medusa_market.inbox_repeat (
    repeat_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    envelope_id bigint NOT NULL
);
COMMENT ON TABLE medusa_market.inbox_repeat IS
    'Repeated envelopes, until they are counted in the inbox: a sender of one locks no row '
    'that others need.';
CREATE INDEX inbox_repeat_of ON medusa_market.inbox_repeat (envelope_id);
COMMENT ON INDEX medusa_market.inbox_repeat_of IS
    'How often an envelope was repeated.';

CREATE TABLE medusa_market.outbox (
    message_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receiver        text COLLATE "C" NOT NULL,
    kind            text COLLATE "C" NOT NULL,
    about           text COLLATE "C" NOT NULL,
    body            bytea NOT NULL CHECK (octet_length(body) <= 98304),
    put_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    nonce           text COLLATE "C" UNIQUE,
    sent_at_ms      bigint,
    expires_at_ms   bigint,
    signature       bytea,
    acknowledged_at timestamptz,
    problem         text,
    CONSTRAINT message_is_sealed_whole
        CHECK (num_nonnulls(nonce, sent_at_ms, expires_at_ms, signature) IN (0, 4))
);
COMMENT ON TABLE medusa_market.outbox IS
    'Messages to partners: written in one transaction with their subject, sealed by this '
    'home''s program, and sent again until they are in the partner''s inbox.';
COMMENT ON COLUMN medusa_market.outbox.about IS 'The same is not put twice while it waits.';
COMMENT ON COLUMN medusa_market.outbox.problem IS 'Why it has not arrived yet, as last tried.';
CREATE UNIQUE INDEX outbox_waiting ON medusa_market.outbox (receiver, about)
    WHERE acknowledged_at IS NULL;
COMMENT ON INDEX medusa_market.outbox_waiting IS
    'Messages that wait to be sent.';

CREATE TABLE medusa_market.partner_share (
    partner  text COLLATE "C" NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    began_at timestamptz NOT NULL,
    messages integer NOT NULL,
    bytes    bigint NOT NULL,
    PRIMARY KEY (partner, kind)
);
COMMENT ON TABLE medusa_market.partner_share IS
    'The amount of each kind that a partner has sent since a time, verified: when its share is '
    'used up it is refused until the time is over. Of the kind kept: its offers and answers '
    'stored here.';

CREATE TABLE medusa_market.message_retention (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    keep    interval NOT NULL DEFAULT '31 days'
        CHECK (keep >= '1 day' AND keep <= '3650 days')
);
COMMENT ON TABLE medusa_market.message_retention IS
    'How long offers, answers and refusals are kept, which the owner sets: one row.';
INSERT INTO medusa_market.message_retention DEFAULT VALUES;

CREATE TABLE medusa_market.delivery_pause (
    partner  text COLLATE "C" PRIMARY KEY,
    failed   integer NOT NULL CHECK (failed > 0),
    since    timestamptz NOT NULL,
    tries_at timestamptz NOT NULL,
    problem  text NOT NULL
);
COMMENT ON TABLE medusa_market.delivery_pause IS
    'Partners whose inbox took nothing lately: how often in a row, since when, why, and when it is '
    'tried again. Gone as soon as one is reached or heard of.';
