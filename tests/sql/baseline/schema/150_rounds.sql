-- Rounds: offers of load, answers to them, and moves that were agreed.
--
-- What was offered and answered is written once and stays; what is open now lies in tables of its
-- own, whose keys keep the laws: one open offer per partner, a fragment in one open offer. Messages
-- are the canonical bytes of medusa_core/market/messages.py: columns are read from them here.
-- Whatever is written comes one after the other (medusa_market.begin_market).

CREATE TABLE medusa_market.market (
    is_only       boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    round_ms      bigint NOT NULL DEFAULT 60000 CHECK (round_ms BETWEEN 1000 AND 86400000),
    move_ms       bigint NOT NULL DEFAULT 300000 CHECK (move_ms BETWEEN 100 AND 604800000),
    residence_ms  bigint NOT NULL DEFAULT 300000 CHECK (residence_ms BETWEEN 0 AND 604800000),
    dead_band     double precision NOT NULL DEFAULT 0.004
        CHECK (dead_band >= 0 AND dead_band < 1),
    partners_max  integer NOT NULL DEFAULT 2 CHECK (partners_max BETWEEN 1 AND 2),
    changes       bigint NOT NULL DEFAULT 0,
    decided_round bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE medusa_market.market IS
    'How this participant trades, which its owner sets, and how far it has come: one row.';
COMMENT ON COLUMN medusa_market.market.round_ms IS
    'How long a round is; an own offer that is not answered lapses after as long.';
COMMENT ON COLUMN medusa_market.market.move_ms IS
    'An agreed move that does not begin lapses after so long.';
COMMENT ON COLUMN medusa_market.market.residence_ms IS
    'The time before which accepted load is not offered again.';
COMMENT ON COLUMN medusa_market.market.dead_band IS
    'The share of a price by which a move must pay, on this side.';
COMMENT ON COLUMN medusa_market.market.partners_max IS 'How many partners are asked at a time.';
COMMENT ON COLUMN medusa_market.market.changes IS
    'Counts the writes about offers: a decision at a smaller count is made again.';
COMMENT ON COLUMN medusa_market.market.decided_round IS
    'The last round in which offers were decided.';
INSERT INTO medusa_market.market DEFAULT VALUES;

CREATE TABLE medusa_market.offer (
    offer_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    is_own       boolean NOT NULL,
    partner      text COLLATE "C" NOT NULL,
    contract     text COLLATE "C" NOT NULL,
    revision     text COLLATE "C" NOT NULL,
    nonce        text COLLATE "C" NOT NULL CHECK (nonce ~ '^[0-9a-f]{32}$'),
    sender_round   bigint NOT NULL,
    level        integer NOT NULL CHECK (level >= 0),
    price        numeric,
    items        integer NOT NULL CHECK (items > 0),
    load         double precision NOT NULL CHECK (load > 0),
    for_overload boolean NOT NULL,
    relays       boolean NOT NULL,
    body         bytea NOT NULL CHECK (octet_length(body) <= 98304),
    because      text,
    round        bigint NOT NULL REFERENCES medusa_market.round,
    made_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (is_own, partner, contract, nonce),
    UNIQUE (offer_id, is_own, partner),
    CONSTRAINT own_offers_have_a_price CHECK (NOT is_own OR price IS NOT NULL),
    CONSTRAINT own_offers_alone_relay CHECK (is_own OR NOT relays)
);
COMMENT ON TABLE medusa_market.offer IS
    'Offers of load that this home made (is_own, then the partner is the provider) or was made; '
    'insert-only.';
COMMENT ON COLUMN medusa_market.offer.sender_round IS 'The round of the payer, by its own count.';
COMMENT ON COLUMN medusa_market.offer.round IS
    'The round of this home in which it was made or arrived.';
COMMENT ON COLUMN medusa_market.offer.price IS
    'Of its level, in the active revision; NULL: it quotes another, or none of its levels.';
COMMENT ON COLUMN medusa_market.offer.relays IS 'On behalf of an offer that is kept open here.';
COMMENT ON COLUMN medusa_market.offer.because IS 'Why, in numbers that no partner sees.';
CREATE INDEX offer_of_partner ON medusa_market.offer (is_own, partner, contract, sender_round);
COMMENT ON INDEX medusa_market.offer_of_partner IS 'The last offer of a partner under a contract.';
CREATE INDEX offer_of_round ON medusa_market.offer (round, partner);
COMMENT ON INDEX medusa_market.offer_of_round IS
    'The offers of a round.';
CREATE INDEX offer_made ON medusa_market.offer (made_at);
COMMENT ON INDEX medusa_market.offer_made IS 'The oldest offers.';

CREATE TABLE medusa_market.open_offer (
    offer_id   bigint PRIMARY KEY,
    is_own     boolean NOT NULL,
    partner    text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    is_stale   boolean NOT NULL DEFAULT false,
    CONSTRAINT one_open_offer_per_partner UNIQUE (is_own, partner),
    FOREIGN KEY (offer_id, is_own, partner)
        REFERENCES medusa_market.offer (offer_id, is_own, partner)
);
COMMENT ON TABLE medusa_market.open_offer IS
    'Offers that wait for an answer; one per partner in each direction.';
COMMENT ON COLUMN medusa_market.open_offer.is_stale IS
    'It lay here for longer than a round before it was looked at: it is declined.';

CREATE TABLE medusa_market.open_item (
    fragment  text COLLATE "C" NOT NULL,
    partition bigint NOT NULL,
    offer_id  bigint NOT NULL REFERENCES medusa_market.open_offer ON DELETE CASCADE,
    CONSTRAINT a_fragment_is_in_one_open_offer PRIMARY KEY (fragment, partition)
);
COMMENT ON TABLE medusa_market.open_item IS 'The fragments in open offers of this home.';
CREATE INDEX open_item_of_offer ON medusa_market.open_item (offer_id);
COMMENT ON INDEX medusa_market.open_item_of_offer IS
    'The items of an offer.';

CREATE TABLE medusa_market.offer_lapse (
    offer_id  bigint PRIMARY KEY REFERENCES medusa_market.offer,
    because   text NOT NULL,
    lapsed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa_market.offer_lapse IS
    'Offers that ended without an answer, and why; insert-only.';

CREATE TABLE medusa_market.answer (
    answer_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    offer_id   bigint NOT NULL REFERENCES medusa_market.offer,
    is_own     boolean NOT NULL,
    is_more    boolean NOT NULL,
    sender_round bigint NOT NULL,
    reason     text COLLATE "C" NOT NULL
        CHECK (reason IN ('taken', 'full', 'load_max', 'revision', 'terms', 'stale', 'unweighed')),
    accepted   integer NOT NULL CHECK (accepted >= 0),
    load       double precision NOT NULL CHECK (load >= 0),
    rooms      jsonb NOT NULL,
    body       bytea NOT NULL CHECK (octet_length(body) <= 98304),
    because    text,
    round      bigint NOT NULL REFERENCES medusa_market.round,
    made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT more_accepts_nothing CHECK (NOT is_more OR accepted = 0)
);
COMMENT ON TABLE medusa_market.answer IS
    'Answers that this home gave (is_own) or got; is_more: word of room, once an offer has been '
    'answered or has lapsed; insert-only.';
COMMENT ON COLUMN medusa_market.answer.rooms IS
    'By level of the contract''s prices, how much more would be taken in all.';
COMMENT ON COLUMN medusa_market.answer.because IS 'Why, in numbers that no partner sees.';
CREATE UNIQUE INDEX answer_once ON medusa_market.answer (offer_id) WHERE NOT is_more;
COMMENT ON INDEX medusa_market.answer_once IS 'An offer is answered once.';
CREATE INDEX answer_of_offer ON medusa_market.answer (offer_id, answer_id);
COMMENT ON INDEX medusa_market.answer_of_offer IS
    'The answers to an offer, in order.';
CREATE INDEX answer_of_round ON medusa_market.answer (round);
COMMENT ON INDEX medusa_market.answer_of_round IS
    'The answers of a round.';
CREATE INDEX answer_made ON medusa_market.answer (made_at);
COMMENT ON INDEX medusa_market.answer_made IS 'The oldest answers.';

CREATE TABLE medusa_market.agreed_move (
    move_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    is_given       boolean NOT NULL,
    partner        text COLLATE "C" NOT NULL,
    contract       text COLLATE "C" NOT NULL,
    revision       text COLLATE "C" NOT NULL REFERENCES medusa_market.contract_revision,
    fragment       text COLLATE "C" NOT NULL,
    partition      bigint NOT NULL,
    load           double precision NOT NULL CHECK (load > 0),
    level          integer NOT NULL CHECK (level >= 0),
    price          numeric NOT NULL,
    answer_id      bigint NOT NULL REFERENCES medusa_market.answer,
    makes_room_for bigint REFERENCES medusa_market.agreed_move,
    state          text COLLATE "C" NOT NULL CHECK (state IN ('granted', 'accepted', 'lapsed')),
    round          bigint NOT NULL REFERENCES medusa_market.round,
    agreed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    CONSTRAINT move_ends_once CHECK ((state = 'lapsed') = (ended_at IS NOT NULL)),
    CONSTRAINT given_moves_alone_make_room CHECK (is_given OR makes_room_for IS NULL)
);
COMMENT ON TABLE medusa_market.agreed_move IS
    'Fragments that this home gives to a partner (is_given) or takes from one: accepted, until '
    'it has moved or its time is over (lapsed). Granted: load that a partner would take so '
    'that this home can take some itself; it lapses with the round unless that happened.';
COMMENT ON COLUMN medusa_market.agreed_move.price IS 'Currency per hour and unit of load.';
COMMENT ON COLUMN medusa_market.agreed_move.makes_room_for IS
    'The move before which this one is made.';
COMMENT ON COLUMN medusa_market.agreed_move.round IS
    'The round of this home in which it was agreed.';
CREATE UNIQUE INDEX agreed_move_given ON medusa_market.agreed_move (fragment, partition)
    WHERE is_given AND state <> 'lapsed';
COMMENT ON INDEX medusa_market.agreed_move_given IS 'A fragment is given to one partner.';
CREATE UNIQUE INDEX agreed_move_taken ON medusa_market.agreed_move (partner, fragment, partition)
    WHERE NOT is_given AND state <> 'lapsed';
COMMENT ON INDEX medusa_market.agreed_move_taken IS 'A fragment is taken from a partner once.';
CREATE INDEX agreed_move_of_answer ON medusa_market.agreed_move (answer_id);
COMMENT ON INDEX medusa_market.agreed_move_of_answer IS
    'The moves agreed by an answer.';

CREATE TABLE medusa_market.requested_load (
    contract     text COLLATE "C" PRIMARY KEY,
    revision     text COLLATE "C" NOT NULL,
    nonce        text COLLATE "C" NOT NULL,
    load         double precision NOT NULL,
    smallest     double precision NOT NULL,
    for_overload boolean NOT NULL,
    reported_level   integer
);
COMMENT ON TABLE medusa_market.requested_load IS
    'The load that a payer offered last without success, so that headroom can be reported to '
    'it.';
COMMENT ON COLUMN medusa_market.requested_load.reported_level IS
    'The lowest level of the headroom that was reported to it; NULL: none was reported.';

CREATE TABLE medusa_market.last_word (
    contract  text COLLATE "C" NOT NULL,
    is_own    boolean NOT NULL,
    answer_id bigint NOT NULL REFERENCES medusa_market.answer,
    PRIMARY KEY (contract, is_own)
);
COMMENT ON TABLE medusa_market.last_word IS 'The last answer given and got under each contract.';

CREATE TABLE medusa_market.silent_partner (
    partner    text COLLATE "C" PRIMARY KEY,
    missed     integer NOT NULL CHECK (missed > 0),
    since      timestamptz NOT NULL,
    asks_round bigint NOT NULL
);
COMMENT ON TABLE medusa_market.silent_partner IS
    'Partners that have not answered lately: how many offers in a row, since when, and in which '
    'round of this home they are asked again.';
