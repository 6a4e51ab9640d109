-- Rounds: participants offer each other load under the contracts in force, and answer.

-- Rounds: offers of load, answers to them, and moves that were agreed ------------------------------
--
-- What was offered and answered is written once and stays; what is open now lies in tables of its
-- own, whose keys keep the laws: one open offer per partner, a fragment in one open offer. Messages
-- are the canonical bytes of medusa_core/market/messages.py: columns are read from them here.
-- Whatever is written comes one after the other (medusa.begin_market).

CREATE TABLE medusa.market (
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
COMMENT ON TABLE medusa.market IS
    'How this participant trades, which its owner sets, and how far it has come: one row.';
COMMENT ON COLUMN medusa.market.round_ms IS
    'How long a round is; an own offer that is not answered lapses after as long.';
COMMENT ON COLUMN medusa.market.move_ms IS 'An agreed move that does not begin lapses after so long.';
COMMENT ON COLUMN medusa.market.residence_ms IS 'What was taken is not offered again before.';
COMMENT ON COLUMN medusa.market.dead_band IS
    'The share of a price by which a move must pay, on this side.';
COMMENT ON COLUMN medusa.market.partners_max IS 'How many partners are asked at a time.';
COMMENT ON COLUMN medusa.market.changes IS
    'Counts what is written about offers: what was decided from less is decided again.';
COMMENT ON COLUMN medusa.market.decided_round IS 'The last round in which offers were decided.';
INSERT INTO medusa.market DEFAULT VALUES;

CREATE TABLE medusa.offer (
    offer_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    is_own       boolean NOT NULL,
    partner      text COLLATE "C" NOT NULL,
    contract     text COLLATE "C" NOT NULL,
    revision     text COLLATE "C" NOT NULL,
    nonce        text COLLATE "C" NOT NULL CHECK (nonce ~ '^[0-9a-f]{32}$'),
    said_round   bigint NOT NULL,
    level        integer NOT NULL CHECK (level >= 0),
    price        numeric,
    items        integer NOT NULL CHECK (items > 0),
    load         double precision NOT NULL CHECK (load > 0),
    for_overload boolean NOT NULL,
    relays       boolean NOT NULL,
    body         bytea NOT NULL CHECK (octet_length(body) <= 98304),
    because      text,
    round        bigint NOT NULL REFERENCES medusa.round,
    made_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (is_own, partner, contract, nonce),
    UNIQUE (offer_id, is_own, partner),
    CONSTRAINT own_offers_have_a_price CHECK (NOT is_own OR price IS NOT NULL),
    CONSTRAINT own_offers_alone_relay CHECK (is_own OR NOT relays)
);
COMMENT ON TABLE medusa.offer IS
    'Offers of load that this home made (is_own, then the partner is the provider) or was made; '
    'insert-only.';
COMMENT ON COLUMN medusa.offer.said_round IS 'The round of the payer, by its own count.';
COMMENT ON COLUMN medusa.offer.round IS 'The round of this home in which it was made or came.';
COMMENT ON COLUMN medusa.offer.price IS
    'Of its level, in the active revision; NULL: it quotes another, or none of its levels.';
COMMENT ON COLUMN medusa.offer.relays IS 'On behalf of an offer that is kept open here.';
COMMENT ON COLUMN medusa.offer.because IS 'Why, in numbers that no partner sees.';
CREATE INDEX offer_of_partner ON medusa.offer (is_own, partner, contract, said_round);
COMMENT ON INDEX medusa.offer_of_partner IS 'The last offer of a partner under a contract.';
CREATE INDEX offer_of_round ON medusa.offer (round, partner);
COMMENT ON INDEX medusa.offer_of_round IS 'What was offered in a round.';

CREATE TABLE medusa.open_offer (
    offer_id   bigint PRIMARY KEY,
    is_own     boolean NOT NULL,
    partner    text COLLATE "C" NOT NULL,
    expires_at timestamptz NOT NULL,
    is_stale   boolean NOT NULL DEFAULT false,
    CONSTRAINT one_open_offer_per_partner UNIQUE (is_own, partner),
    FOREIGN KEY (offer_id, is_own, partner) REFERENCES medusa.offer (offer_id, is_own, partner)
);
COMMENT ON TABLE medusa.open_offer IS 'Offers that wait for an answer; one per partner either way.';
COMMENT ON COLUMN medusa.open_offer.is_stale IS
    'It lay here for longer than a round before it was looked at: it is declined.';

CREATE TABLE medusa.open_item (
    fragment  text COLLATE "C" NOT NULL,
    partition bigint NOT NULL,
    offer_id  bigint NOT NULL REFERENCES medusa.open_offer ON DELETE CASCADE,
    CONSTRAINT a_fragment_is_in_one_open_offer PRIMARY KEY (fragment, partition)
);
COMMENT ON TABLE medusa.open_item IS 'The fragments in open offers of this home.';
CREATE INDEX open_item_of_offer ON medusa.open_item (offer_id);
COMMENT ON INDEX medusa.open_item_of_offer IS 'What an offer is about.';

CREATE TABLE medusa.offer_lapse (
    offer_id  bigint PRIMARY KEY REFERENCES medusa.offer,
    because   text NOT NULL,
    lapsed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.offer_lapse IS 'Offers that ended without an answer, and why; insert-only.';

CREATE TABLE medusa.answer (
    answer_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    offer_id   bigint NOT NULL REFERENCES medusa.offer,
    is_own     boolean NOT NULL,
    is_more    boolean NOT NULL,
    said_round bigint NOT NULL,
    reason     text COLLATE "C" NOT NULL
        CHECK (reason IN ('taken', 'full', 'load_max', 'revision', 'terms', 'stale')),
    accepted   integer NOT NULL CHECK (accepted >= 0),
    load       double precision NOT NULL CHECK (load >= 0),
    rooms      jsonb NOT NULL,
    body       bytea NOT NULL CHECK (octet_length(body) <= 98304),
    because    text,
    round      bigint NOT NULL REFERENCES medusa.round,
    made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT more_accepts_nothing CHECK (NOT is_more OR accepted = 0)
);
COMMENT ON TABLE medusa.answer IS
    'Answers that this home gave (is_own) or got; is_more: word of room, once an offer has been '
    'answered or has lapsed; insert-only.';
COMMENT ON COLUMN medusa.answer.rooms IS
    'By level of the contract''s prices, how much more would be taken in all.';
COMMENT ON COLUMN medusa.answer.because IS 'Why, in numbers that no partner sees.';
CREATE UNIQUE INDEX answer_once ON medusa.answer (offer_id) WHERE NOT is_more;
COMMENT ON INDEX medusa.answer_once IS 'An offer is answered once.';
CREATE INDEX answer_of_offer ON medusa.answer (offer_id, answer_id);
COMMENT ON INDEX medusa.answer_of_offer IS 'What was said to an offer, in order.';
CREATE INDEX answer_of_round ON medusa.answer (round);
COMMENT ON INDEX medusa.answer_of_round IS 'What was answered in a round.';

CREATE TABLE medusa.agreed_move (
    move_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    is_given       boolean NOT NULL,
    partner        text COLLATE "C" NOT NULL,
    contract       text COLLATE "C" NOT NULL,
    revision       text COLLATE "C" NOT NULL REFERENCES medusa.contract_revision,
    fragment       text COLLATE "C" NOT NULL,
    partition      bigint NOT NULL,
    load           double precision NOT NULL CHECK (load > 0),
    level          integer NOT NULL CHECK (level >= 0),
    price          numeric NOT NULL,
    answer_id      bigint NOT NULL REFERENCES medusa.answer,
    makes_room_for bigint REFERENCES medusa.agreed_move,
    state          text COLLATE "C" NOT NULL CHECK (state IN ('granted', 'accepted', 'lapsed')),
    round          bigint NOT NULL REFERENCES medusa.round,
    agreed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at     timestamptz NOT NULL,
    ended_at       timestamptz,
    CONSTRAINT move_ends_once CHECK ((state = 'lapsed') = (ended_at IS NOT NULL)),
    CONSTRAINT given_moves_alone_make_room CHECK (is_given OR makes_room_for IS NULL)
);
COMMENT ON TABLE medusa.agreed_move IS
    'Fragments that this home gives to a partner (is_given) or takes from one: accepted, until it '
    'has moved or its time is over (lapsed). Granted: what a partner would take so that this home '
    'can take something itself; it lapses with the round unless that came about.';
COMMENT ON COLUMN medusa.agreed_move.price IS 'Currency per hour and unit of load.';
COMMENT ON COLUMN medusa.agreed_move.makes_room_for IS 'The move before which this one is made.';
COMMENT ON COLUMN medusa.agreed_move.round IS 'The round of this home in which it was agreed.';
CREATE UNIQUE INDEX agreed_move_given ON medusa.agreed_move (fragment, partition)
    WHERE is_given AND state <> 'lapsed';
COMMENT ON INDEX medusa.agreed_move_given IS 'A fragment is given to one partner.';
CREATE UNIQUE INDEX agreed_move_taken ON medusa.agreed_move (partner, fragment, partition)
    WHERE NOT is_given AND state <> 'lapsed';
COMMENT ON INDEX medusa.agreed_move_taken IS 'A fragment is taken from a partner once.';
CREATE INDEX agreed_move_of_answer ON medusa.agreed_move (answer_id);
COMMENT ON INDEX medusa.agreed_move_of_answer IS 'What an answer has agreed.';

CREATE TABLE medusa.wanted_load (
    contract     text COLLATE "C" PRIMARY KEY,
    revision     text COLLATE "C" NOT NULL,
    nonce        text COLLATE "C" NOT NULL,
    load         double precision NOT NULL,
    smallest     double precision NOT NULL,
    for_overload boolean NOT NULL,
    told_level   integer
);
COMMENT ON TABLE medusa.wanted_load IS
    'What a payer has asked for last and did not get, so that it can be told of room.';
COMMENT ON COLUMN medusa.wanted_load.told_level IS
    'The lowest level at which it was told of room; NULL: it was told that there is none.';

CREATE TABLE medusa.last_word (
    contract  text COLLATE "C" NOT NULL,
    is_own    boolean NOT NULL,
    answer_id bigint NOT NULL REFERENCES medusa.answer,
    PRIMARY KEY (contract, is_own)
);
COMMENT ON TABLE medusa.last_word IS 'The last answer given and got under each contract.';

CREATE TABLE medusa.silent_partner (
    partner    text COLLATE "C" PRIMARY KEY,
    missed     integer NOT NULL CHECK (missed > 0),
    since      timestamptz NOT NULL,
    asks_round bigint NOT NULL
);
COMMENT ON TABLE medusa.silent_partner IS
    'Partners that have not answered lately: how many offers in a row, since when, and in which '
    'round of this home they are asked again.';

CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.offer
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.offer_lapse
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.answer
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa.agreed_move
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.price_of(terms medusa.contract_revision, level integer) RETURNS numeric
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN terms.kind = 'movement'
        AND level BETWEEN 0 AND (terms.price_high - terms.price_low) / terms.price_step
        THEN terms.price_low + level * terms.price_step END
$$;
COMMENT ON FUNCTION medusa.price_of(medusa.contract_revision, integer) IS
    'The price of a level; NULL if the contract has no such level.';

CREATE FUNCTION medusa.terms_in_force(contract text, revision text)
RETURNS medusa.contract_revision
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.* FROM medusa_api.contract_in_force AS c
    JOIN medusa.contract_revision AS r ON r.revision = c.revision
    WHERE c.contract = terms_in_force.contract AND c.revision = terms_in_force.revision
$$;
COMMENT ON FUNCTION medusa.terms_in_force(text, text) IS
    'What a contract says, if just this revision is active and valid here now; else all NULL.';

CREATE FUNCTION medusa.guard_offer() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision := medusa.terms_in_force(NEW.contract, NEW.revision);
BEGIN
    IF NEW.is_own AND ((medusa.here(), NEW.partner) IS DISTINCT FROM (terms.payer, terms.provider)
        OR NEW.price IS DISTINCT FROM medusa.price_of(terms, NEW.level))
    THEN
        RAISE EXCEPTION 'an offer to % at level % of contract % is refused: it is none of the prices '
            'that the revision in force allows (S4)', NEW.partner, NEW.level, NEW.contract
            USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_offer() IS
    'S4: what is offered has a price of the contract''s range, in the revision that is in force.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.offer
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_offer();

CREATE FUNCTION medusa.guard_move() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision;
    here  text := medusa.here();
    same  medusa.agreed_move;
    lies  double precision;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        same := OLD;
        IF (OLD.state, NEW.state) IN (('granted', 'accepted'), ('granted', 'lapsed'),
            ('accepted', 'lapsed'))
        THEN
            same.state := NEW.state;
            same.ended_at := NEW.ended_at;
            IF OLD.state = 'granted' THEN
                same.makes_room_for := NEW.makes_room_for;
            END IF;
        END IF;
        IF same IS DISTINCT FROM NEW THEN
            RAISE EXCEPTION 'move % of % keeps what was agreed', OLD.move_id, OLD.fragment
                USING ERRCODE = 'MDLOG';
        END IF;
        RETURN NEW;
    END IF;
    SELECT r.* INTO terms FROM medusa.contract_activation AS v
    JOIN medusa.contract_revision AS r ON r.revision = v.revision
    WHERE v.revision = NEW.revision AND v.contract = NEW.contract;
    IF (terms.payer, terms.provider) IS DISTINCT FROM (
            (CASE WHEN NEW.is_given THEN here ELSE NEW.partner END),
            (CASE WHEN NEW.is_given THEN NEW.partner ELSE here END))
        OR NEW.price IS DISTINCT FROM medusa.price_of(terms, NEW.level)
        OR NOT coalesce(NEW.fragment = ANY (terms.fragments), true)
    THEN
        RAISE EXCEPTION 'a move of % at level % of contract % is refused: the contract does not allow '
            'it (S4)', NEW.fragment, NEW.level, NEW.contract USING ERRCODE = 'MD001';
    END IF;
    SELECT coalesce(sum(m.load), 0) INTO lies FROM medusa.agreed_move AS m
    WHERE m.contract = NEW.contract AND m.is_given = NEW.is_given AND m.state <> 'lapsed';
    IF lies + NEW.load > terms.load_max * (1 + 1e-6) THEN
        RAISE EXCEPTION 'a move of % under contract % is refused: % lie there already of the most load '
            '%', NEW.fragment, NEW.contract, lies, terms.load_max USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_move() IS
    'S4: a move has a price of the contract''s range, is of a fragment that may move, and brings no '
    'more load than the contract lets lie there; what was agreed stays.';
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON medusa.agreed_move
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_move();

CREATE FUNCTION medusa.begin_market() RETURNS medusa.market
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    trades medusa.market;
BEGIN
    UPDATE medusa.market AS m SET changes = m.changes + 1 RETURNING * INTO trades;
    IF NOT FOUND THEN
        INSERT INTO medusa.market DEFAULT VALUES ON CONFLICT DO NOTHING;
        UPDATE medusa.market AS m SET changes = m.changes + 1 RETURNING * INTO trades;
    END IF;
    RETURN trades;
END $$;
COMMENT ON FUNCTION medusa.begin_market() IS
    'Whatever is written about offers comes one after the other, from here to the end of the '
    'transaction; how this participant trades.';

CREATE FUNCTION medusa.this_round() RETURNS bigint
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found bigint;
BEGIN
    SELECT max(r.number) INTO found FROM medusa.round AS r;
    IF found IS NULL THEN
        RAISE EXCEPTION 'no round was ever opened here: open one' USING ERRCODE = 'MD002';
    END IF;
    RETURN found;
END $$;
COMMENT ON FUNCTION medusa.this_round() IS 'The round that is open.';

CREATE FUNCTION medusa.lapse_offer(waiting medusa.open_offer, because text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended medusa.offer;
BEGIN
    SELECT * INTO ended FROM medusa.offer AS o WHERE o.offer_id = waiting.offer_id;
    INSERT INTO medusa.offer_lapse (offer_id, because) VALUES (waiting.offer_id, lapse_offer.because);
    DELETE FROM medusa.open_offer AS o WHERE o.offer_id = waiting.offer_id;
    DELETE FROM medusa.outbox AS o
    WHERE o.receiver = waiting.partner AND o.about = 'offer/' || ended.nonce
        AND o.acknowledged_at IS NULL AND waiting.is_own;
    PERFORM medusa.write_audit('lapsed', ended.contract, to_jsonb(ended.nonce),
        to_jsonb(lapse_offer.because));
END $$;
COMMENT ON FUNCTION medusa.lapse_offer(medusa.open_offer, text) IS
    'An offer is open no more; what was not sent of it is not sent.';

CREATE FUNCTION medusa.expire_market() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    waiting medusa.open_offer;
    now_is timestamptz;
    ended  integer := 0;
    moves  integer;
    now_in bigint;
BEGIN
    now_is := clock_timestamp();
    SELECT coalesce(max(r.number), 0) INTO now_in FROM medusa.round AS r;
    IF NOT EXISTS (SELECT FROM medusa.open_offer AS o WHERE o.expires_at <= now_is)
        AND NOT EXISTS (
            SELECT FROM medusa.agreed_move AS m
            WHERE m.state = 'granted' AND m.round < now_in
                OR m.state = 'accepted' AND m.expires_at <= now_is)
    THEN
        RETURN 0;
    END IF;
    PERFORM medusa.begin_market();
    FOR waiting IN SELECT * FROM medusa.open_offer AS o WHERE o.expires_at <= now_is
        ORDER BY o.offer_id
    LOOP
        PERFORM medusa.lapse_offer(waiting, 'it was not answered in time');
        ended := ended + 1;
        CONTINUE WHEN NOT waiting.is_own;
        INSERT INTO medusa.silent_partner AS s (partner, missed, since, asks_round)
        VALUES (waiting.partner, 1, now_is, now_in + 2)
        ON CONFLICT (partner) DO UPDATE SET missed = s.missed + 1,
            asks_round = now_in + 1 + least(1 << least(s.missed, 4), 16);
    END LOOP;
    UPDATE medusa.agreed_move AS m SET state = 'lapsed', ended_at = now_is
    WHERE m.state = 'granted' AND m.round < now_in
        OR m.state = 'accepted' AND m.expires_at <= now_is;
    GET DIAGNOSTICS moves = ROW_COUNT;
    RETURN ended + moves;
END $$;
COMMENT ON FUNCTION medusa.expire_market() IS
    'What was offered or agreed, and whose time has passed, binds nobody any more; how much. A '
    'partner that has not answered is left alone for a while, longer each time.';

CREATE FUNCTION medusa.take_offer(envelope_id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    trades   medusa.market := medusa.begin_market();
    envelope medusa.inbox;
    given    jsonb;
    agreed   medusa.contract_revision;
    terms    medusa.contract_revision;
    waiting  medusa.open_offer;
    made     medusa.offer;
    here     text := medusa.here();
BEGIN
    -- 1 Under which contract, in which round?
    envelope := medusa.end_envelope(take_offer.envelope_id);
    given := convert_from(envelope.body, 'UTF8')::jsonb;
    agreed := medusa.agreed_revision(given->>'contract');
    IF (agreed.payer, agreed.provider, agreed.kind)
        IS DISTINCT FROM (envelope.sender, here, 'movement')
    THEN
        RAISE EXCEPTION 'there is no contract % under which % may hand load to %',
            left(given->>'contract', 80), envelope.sender, here USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM medusa.offer AS o WHERE NOT o.is_own AND o.partner = envelope.sender
            AND o.contract = agreed.contract AND o.nonce = given->>'nonce')
    THEN
        RAISE EXCEPTION 'this offer was made before: it is a replay' USING ERRCODE = 'MD001';
    END IF;
    -- A partner that has lost its home counts from 1 again, and is heard again after an hour.
    IF EXISTS (
        SELECT FROM medusa.offer AS o
        WHERE NOT o.is_own AND o.partner = envelope.sender AND o.contract = agreed.contract
            AND o.said_round > (given->>'round')::bigint
            AND o.made_at > clock_timestamp() - interval '1 hour')
    THEN
        RAISE EXCEPTION 'it is stale: an offer of a later round than % has come',
            given->>'round' USING ERRCODE = 'MD001';
    END IF;

    -- 2 One at a time, and not too many.
    SELECT * INTO waiting FROM medusa.open_offer AS o
    WHERE NOT o.is_own AND o.partner = envelope.sender;
    IF FOUND THEN
        SELECT * INTO made FROM medusa.offer AS o WHERE o.offer_id = waiting.offer_id;
        IF (given->>'round')::bigint <= made.said_round THEN
            RAISE EXCEPTION 'another offer of % is open: one at a time', envelope.sender
                USING ERRCODE = 'MD001';
        END IF;
        PERFORM medusa.lapse_offer(waiting, 'the payer has made another');
    END IF;
    IF (SELECT count(*) FROM medusa.offer AS o WHERE NOT o.is_own
        AND o.partner = envelope.sender AND o.round = medusa.this_round()) >= 64
    THEN
        RAISE EXCEPTION '% has made 64 offers in this round: it may make no more', envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    -- What it offers it has not given: an acceptance that came too late for it binds nobody.
    UPDATE medusa.agreed_move AS m SET state = 'lapsed', ended_at = clock_timestamp()
    FROM jsonb_to_recordset(given->'items') AS i (fragment text, partition bigint)
    WHERE (i.fragment, i.partition) = (m.fragment, m.partition)
        AND NOT m.is_given AND m.partner = envelope.sender AND m.state = 'accepted';

    -- 3 It waits for an answer.
    terms := medusa.terms_in_force(agreed.contract, given->>'revision');
    INSERT INTO medusa.offer (is_own, partner, contract, revision, nonce, said_round, level, price,
        items, load, for_overload, relays, body, round)
    SELECT false, envelope.sender, agreed.contract, given->>'revision', given->>'nonce',
        (given->>'round')::bigint, (given->>'level')::integer,
        medusa.price_of(terms, (given->>'level')::integer), count(*),
        sum(i.load), (given->>'for_overload')::boolean, false, envelope.body, medusa.this_round()
    FROM jsonb_to_recordset(given->'items') AS i (load double precision)
    RETURNING * INTO made;
    INSERT INTO medusa.open_offer (offer_id, is_own, partner, expires_at, is_stale)
    VALUES (made.offer_id, false, made.partner,
        clock_timestamp() + 2 * trades.round_ms * interval '1 ms',
        envelope.received_at + trades.round_ms * interval '1 ms' < clock_timestamp());
    DELETE FROM medusa.silent_partner AS s WHERE s.partner = envelope.sender;
    PERFORM medusa.write_audit('offered', made.contract, NULL, jsonb_build_object('by',
        made.partner, 'nonce', made.nonce, 'level', made.level, 'load', made.load));
    RETURN made.offer_id;
END $$;
COMMENT ON FUNCTION medusa.take_offer(bigint) IS
    'A verified offer waits for an answer; refused if the sender may make none, or has made it '
    'before, or has another one open. Its number.';

CREATE FUNCTION medusa.take_answer(envelope_id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    trades   medusa.market := medusa.begin_market();
    envelope medusa.inbox;
    given    jsonb;
    made     medusa.offer;
    is_open  boolean;
    said     medusa.answer;
BEGIN
    -- 1 To which offer?
    envelope := medusa.end_envelope(take_answer.envelope_id);
    given := convert_from(envelope.body, 'UTF8')::jsonb;
    SELECT * INTO made FROM medusa.offer AS o
    WHERE o.is_own AND o.partner = envelope.sender AND o.contract = given->>'contract'
        AND o.nonce = given->>'nonce';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'it answers an offer that was never made to %', envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT (convert_from(made.body, 'UTF8')::jsonb->'items') @> (given->'accepted') THEN
        RAISE EXCEPTION 'it accepts what was not offered' USING ERRCODE = 'MD001';
    END IF;
    DELETE FROM medusa.open_offer AS o WHERE o.offer_id = made.offer_id;
    is_open := FOUND;
    DELETE FROM medusa.silent_partner AS s WHERE s.partner = envelope.sender;

    -- 2 An offer is answered once; then there may be word of room.
    IF NOT is_open AND given->'accepted' <> '[]' THEN
        RAISE EXCEPTION 'the offer % before it came: nothing of it is taken',
            CASE WHEN EXISTS (SELECT FROM medusa.answer AS a WHERE a.offer_id = made.offer_id)
                THEN 'was answered' ELSE 'had lapsed' END USING ERRCODE = 'MD001';
    END IF;
    IF NOT is_open AND (SELECT count(*) FROM medusa.answer AS a
        JOIN medusa.offer AS o ON o.offer_id = a.offer_id
        WHERE o.partner = envelope.sender AND a.is_more AND a.round = medusa.this_round()) >= 64
    THEN
        RAISE EXCEPTION '% has told of room 64 times in this round: it is heard no more',
            envelope.sender USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.answer (offer_id, is_own, is_more, said_round, reason, accepted, load, rooms,
        body, round)
    SELECT made.offer_id, false, NOT is_open, (given->>'round')::bigint, given->>'reason', count(*),
        coalesce(sum(i.load), 0), given->'rooms', envelope.body, medusa.this_round()
    FROM jsonb_to_recordset(given->'accepted') AS i (load double precision)
    RETURNING * INTO said;

    -- 3 What is accepted is given, or granted so that this home may take something itself.
    INSERT INTO medusa.agreed_move (is_given, partner, contract, revision, fragment, partition, load,
        level, price, answer_id, state, round, expires_at)
    SELECT true, made.partner, made.contract, made.revision, i.fragment, i.partition, i.load,
        made.level, made.price, said.answer_id,
        CASE WHEN made.relays THEN 'granted' ELSE 'accepted' END, said.round,
        clock_timestamp() + trades.move_ms * interval '1 ms'
    FROM jsonb_to_recordset(given->'accepted')
        AS i (fragment text, partition bigint, load double precision);
    INSERT INTO medusa.last_word AS w (contract, is_own, answer_id)
    VALUES (made.contract, false, said.answer_id)
    ON CONFLICT (contract, is_own) DO UPDATE SET answer_id = EXCLUDED.answer_id;
    PERFORM medusa.write_audit('answered', made.contract, to_jsonb(made.nonce),
        given - ARRAY['format', 'contract', 'nonce']);
    RETURN said.answer_id;
END $$;
COMMENT ON FUNCTION medusa.take_answer(bigint) IS
    'A verified answer ends the offer that it names, and what it accepts is agreed; refused if that '
    'was never offered, or not any more. Its number.';

CREATE FUNCTION medusa.make_offer(made_offer jsonb, trades medusa.market) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    message bytea := convert_to(made_offer->>'body', 'UTF8');
    given jsonb := (made_offer->>'body')::jsonb;
    terms medusa.contract_revision;
    made  medusa.offer;
    other text;
BEGIN
    terms := medusa.terms_in_force(given->>'contract', given->>'revision');
    SELECT i.fragment INTO other FROM jsonb_to_recordset(given->'items') AS i (fragment text)
    WHERE NOT coalesce(i.fragment = ANY (terms.fragments), true) LIMIT 1;
    IF terms.revision IS NULL OR other IS NOT NULL THEN
        RAISE EXCEPTION 'contract % does not let % move: read it again', given->>'contract',
            coalesce(other, 'anything') USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.offer (is_own, partner, contract, revision, nonce, said_round, level, price,
        items, load, for_overload, relays, body, because, round)
    SELECT true, terms.provider, terms.contract, terms.revision, given->>'nonce',
        (given->>'round')::bigint, (given->>'level')::integer,
        medusa.price_of(terms, (given->>'level')::integer), count(*), sum(i.load),
        (given->>'for_overload')::boolean, (made_offer->>'relays')::boolean, message,
        made_offer->>'because', medusa.this_round()
    FROM jsonb_to_recordset(given->'items') AS i (load double precision)
    RETURNING * INTO made;
    INSERT INTO medusa.open_offer (offer_id, is_own, partner, expires_at)
    VALUES (made.offer_id, true, made.partner,
        clock_timestamp() + trades.round_ms * interval '1 ms');
    INSERT INTO medusa.open_item (fragment, partition, offer_id)
    SELECT i.fragment, i.partition, made.offer_id
    FROM jsonb_to_recordset(given->'items') AS i (fragment text, partition bigint);
    INSERT INTO medusa.outbox (receiver, kind, about, body)
    VALUES (made.partner, 'offer', 'offer/' || made.nonce, message);
    PERFORM medusa.write_audit('offers', made.contract, NULL, jsonb_build_object('to',
        made.partner, 'nonce', made.nonce, 'level', made.level, 'load', made.load));
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'another offer to % is open, or of a fragment in it: one at a time',
        terms.provider USING ERRCODE = 'MD002';
END $$;
COMMENT ON FUNCTION medusa.make_offer(jsonb, medusa.market) IS
    'Make an offer, which is sent once this transaction has ended well.';

CREATE FUNCTION medusa.give_answer(given_answer jsonb, trades medusa.market) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    message bytea := convert_to(given_answer->>'body', 'UTF8');
    given   jsonb := (given_answer->>'body')::jsonb;
    tells   boolean := (given_answer->>'is_more')::boolean;
    made    medusa.offer;
    said    medusa.answer;
    taken   record;
    agreed  medusa.contract_revision;
    unclaimed integer;
BEGIN
    SELECT * INTO made FROM medusa.offer AS o
    WHERE NOT o.is_own AND o.partner = given_answer->>'to' AND o.contract = given->>'contract'
        AND o.nonce = given->>'nonce';
    IF (convert_from(made.body, 'UTF8')::jsonb->'items' @> (given->'accepted')) IS NOT TRUE THEN
        RAISE EXCEPTION 'an answer that is none to the offer: read it again' USING ERRCODE = 'MD002';
    END IF;
    IF NOT tells THEN
        DELETE FROM medusa.open_offer AS o WHERE o.offer_id = made.offer_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the offer % is open no more: read again', made.nonce
                USING ERRCODE = 'MD002';
        END IF;
    END IF;
    IF given->'accepted' <> '[]'
        AND (medusa.terms_in_force(made.contract, made.revision)).revision IS NULL
    THEN
        RAISE EXCEPTION 'contract % is not in force as the offer quotes it', made.contract
            USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.answer (offer_id, is_own, is_more, said_round, reason, accepted, load, rooms,
        body, because, round)
    SELECT made.offer_id, true, tells, (given->>'round')::bigint, given->>'reason',
        count(*), coalesce(sum(i.load), 0), given->'rooms', message,
        given_answer->>'because', medusa.this_round()
    FROM jsonb_to_recordset(given->'accepted') AS i (load double precision)
    RETURNING * INTO said;
    FOR taken IN SELECT * FROM jsonb_to_recordset(given->'accepted')
        AS i (fragment text, partition bigint, load double precision)
    LOOP
        INSERT INTO medusa.agreed_move (is_given, partner, contract, revision, fragment, partition,
            load, level, price, answer_id, state, round, expires_at)
        VALUES (false, made.partner, made.contract, made.revision, taken.fragment, taken.partition,
            taken.load, made.level, made.price, said.answer_id, 'accepted', said.round,
            clock_timestamp() + trades.move_ms * interval '1 ms');
    END LOOP;
    -- What makes room for it leaves, each before the one that it makes room for.
    UPDATE medusa.agreed_move AS m SET state = 'accepted', makes_room_for = t.move_id
    FROM jsonb_to_recordset(given_answer->'leaves')
        AS l (move_id bigint, fragment text, partition bigint)
    JOIN medusa.agreed_move AS t ON t.answer_id = said.answer_id
        AND (t.fragment, t.partition) = (l.fragment, l.partition)
    WHERE m.move_id = l.move_id AND m.is_given AND m.state = 'granted';
    GET DIAGNOSTICS unclaimed = ROW_COUNT;
    IF unclaimed <> jsonb_array_length(given_answer->'leaves') THEN
        RAISE EXCEPTION 'what was to make room has lapsed: read again' USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.outbox (receiver, kind, about, body)
    VALUES (made.partner, 'answer', 'answer/' || said.answer_id, message);
    IF said.reason = 'revision' THEN
        agreed := medusa.agreed_revision(made.contract);
        PERFORM medusa.tell_agreements(made.contract, made.partner, agreed.number);
        IF NOT EXISTS (SELECT FROM medusa.contract_agreement AS a WHERE a.revision = made.revision)
        THEN
            PERFORM medusa.put_out(made.partner, 'want', 'want/' || made.contract,
                jsonb_build_object('contract', made.contract, 'number', agreed.number + 1));
        END IF;
    END IF;
    INSERT INTO medusa.last_word AS w (contract, is_own, answer_id)
    VALUES (made.contract, true, said.answer_id)
    ON CONFLICT (contract, is_own) DO UPDATE SET answer_id = EXCLUDED.answer_id;
    PERFORM medusa.write_audit('answers', made.contract, to_jsonb(made.nonce),
        given - ARRAY['format', 'contract', 'nonce']);
END $$;
COMMENT ON FUNCTION medusa.give_answer(jsonb, medusa.market) IS
    'Answer an offer, or tell of room once more: what is accepted is agreed. Who quotes another '
    'revision is sent the one that is agreed here.';

CREATE FUNCTION medusa.apply_round(request jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    trades medusa.market := medusa.begin_market();
    one    jsonb;
    going  integer;
BEGIN
    IF trades.changes - 1 IS DISTINCT FROM (request->>'changes')::bigint
        OR medusa.this_round() IS DISTINCT FROM (request->>'round')::bigint
    THEN
        RAISE EXCEPTION 'others have offered or answered meanwhile: read again'
            USING ERRCODE = 'MD002';
    END IF;
    FOR one IN SELECT * FROM jsonb_array_elements(request->'offers') LOOP
        PERFORM medusa.make_offer(one, trades);
    END LOOP;
    FOR one IN SELECT * FROM jsonb_array_elements(request->'answers') LOOP
        PERFORM medusa.give_answer(one, trades);
    END LOOP;
    UPDATE medusa.agreed_move AS m SET state = 'accepted'
    WHERE m.move_id IN (SELECT l::bigint FROM jsonb_array_elements_text(request->'leaves') AS l)
        AND m.is_given AND m.state = 'granted';
    GET DIAGNOSTICS going = ROW_COUNT;
    IF going <> jsonb_array_length(request->'leaves') THEN
        RAISE EXCEPTION 'what was to be handed on has lapsed: read again' USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa.wanted_load AS w (contract, revision, nonce, load, smallest, for_overload,
        told_level)
    SELECT r.contract, r.revision, r.nonce, r.load, r.smallest, r.for_overload, r.told_level
    FROM jsonb_to_recordset(request->'wanted') AS r (contract text, revision text, nonce text,
        load double precision, smallest double precision, for_overload boolean, told_level integer)
    ON CONFLICT (contract) DO UPDATE SET (revision, nonce, load, smallest, for_overload, told_level)
        = (EXCLUDED.revision, EXCLUDED.nonce, EXCLUDED.load, EXCLUDED.smallest,
            EXCLUDED.for_overload, EXCLUDED.told_level);
    IF (request->>'decides')::boolean THEN
        UPDATE medusa.market AS m SET decided_round = (request->>'round')::bigint;
    END IF;
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.apply_round(jsonb) IS
    'Write down what this participant decided, offers and answers, and what is to be sent of it, all '
    'or nothing; a conflict if anything was offered or answered since it was decided.';

CREATE VIEW medusa_api.offers WITH (security_invoker = true) AS
    SELECT o.offer_id, o.round, o.is_own, o.partner, o.contract, CASE
            WHEN w.offer_id IS NOT NULL THEN 'open' WHEN l.offer_id IS NOT NULL THEN 'lapsed'
            ELSE 'answered' END AS state,
        o.level, o.price, o.items, o.load, a.accepted, a.load AS accepted_load, a.reason,
        o.for_overload, o.relays, o.because, o.made_at, w.expires_at, l.because AS lapsed_because,
        o.nonce, o.revision, o.said_round
    FROM medusa.offer AS o
    LEFT JOIN medusa.open_offer AS w ON w.offer_id = o.offer_id
    LEFT JOIN medusa.offer_lapse AS l ON l.offer_id = o.offer_id
    LEFT JOIN medusa.answer AS a ON a.offer_id = o.offer_id AND NOT a.is_more;
COMMENT ON VIEW medusa_api.offers IS
    'Offers of load that this home made and was made, why, and what became of them.';

CREATE VIEW medusa_api.answers WITH (security_invoker = true) AS
    SELECT a.answer_id, a.round, a.is_own, o.partner, o.contract, a.reason, a.accepted, a.load,
        a.rooms, a.is_more, a.because, a.made_at, o.offer_id, o.nonce, a.said_round
    FROM medusa.answer AS a JOIN medusa.offer AS o ON o.offer_id = a.offer_id;
COMMENT ON VIEW medusa_api.answers IS
    'Answers that this home gave and got, why, and how much more would be taken.';

CREATE VIEW medusa_api.agreed_moves WITH (security_invoker = true) AS
    SELECT move_id, round, is_given, partner, contract, fragment, partition, load, level, price,
        state, makes_room_for, agreed_at, expires_at, ended_at, revision
    FROM medusa.agreed_move;
COMMENT ON VIEW medusa_api.agreed_moves IS
    'Fragments that this home has agreed to give or to take, until they move or lapse.';

CREATE VIEW medusa_api.trading WITH (security_invoker = true) AS
    SELECT round_ms, move_ms, residence_ms, dead_band, partners_max FROM medusa.market;
COMMENT ON VIEW medusa_api.trading IS
    'How this participant trades: its owner changes it by UPDATE, from the next turn on.';

REVOKE ALL ON medusa.market, medusa.offer, medusa.open_offer, medusa.open_item, medusa.offer_lapse,
    medusa.answer, medusa.agreed_move, medusa.wanted_load, medusa.last_word, medusa.silent_partner,
    medusa_api.offers, medusa_api.answers, medusa_api.agreed_moves, medusa_api.trading FROM PUBLIC;
REVOKE ALL ON FUNCTION medusa.price_of, medusa.terms_in_force, medusa.guard_offer,
    medusa.guard_move, medusa.begin_market, medusa.this_round, medusa.lapse_offer,
    medusa.expire_market, medusa.take_offer, medusa.take_answer, medusa.make_offer,
    medusa.give_answer, medusa.apply_round FROM PUBLIC;

CREATE FUNCTION medusa.grant_rounds_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text;
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['owner', 'job'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN role = current_user
            OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT SELECT ON medusa.market, medusa.offer, medusa.open_offer, '
            'medusa.open_item, medusa.offer_lapse, medusa.answer, medusa.agreed_move, '
            'medusa.wanted_load, medusa.last_word, medusa.silent_partner, medusa_api.offers, '
            'medusa_api.answers, '
            'medusa_api.agreed_moves, medusa_api.trading TO %I', role);
        IF kind = 'owner' THEN
            EXECUTE format('GRANT UPDATE (round_ms, move_ms, residence_ms, dead_band, partners_max) '
                'ON medusa.market, medusa_api.trading TO %I', role);
        ELSE
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.expire_market, medusa.take_offer, '
                'medusa.take_answer, medusa.apply_round TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_rounds_to_roles() IS
    'Jobs offer and answer, the owner looks on and says how to trade; no other role sees anything.';
REVOKE ALL ON FUNCTION medusa.grant_rounds_to_roles() FROM PUBLIC;
SELECT medusa.grant_rounds_to_roles();
