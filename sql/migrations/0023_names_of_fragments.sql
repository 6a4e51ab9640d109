-- A fragment has two names, and offers are checked by the rule by which they are decided.

CREATE FUNCTION medusa.may_move(terms medusa.contract_revision, fragment text) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT (terms).fragments IS NULL OR EXISTS (
        SELECT FROM unnest((terms).fragments) AS f WHERE medusa.is_fragment_of(fragment, f))
$$;
COMMENT ON FUNCTION medusa.may_move(medusa.contract_revision, text) IS
    'Whether a contract lets a fragment move, by either of its names: FRAGMENT stands for '
    'NETWORK.FRAGMENT too, of which network it is the payer knows.';
REVOKE ALL ON FUNCTION medusa.may_move FROM PUBLIC;

CREATE OR REPLACE FUNCTION medusa.guard_move() RETURNS trigger
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
        OR NOT medusa.may_move(terms, NEW.fragment)
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

CREATE OR REPLACE FUNCTION medusa.make_offer(made_offer jsonb, trades medusa.market) RETURNS void
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
    WHERE NOT medusa.may_move(terms, i.fragment) LIMIT 1;
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

COMMENT ON FUNCTION medusa.take_offer(bigint) IS
    'A verified offer waits for an answer; refused if the sender may make none, or has made it '
    'before, or has another one open, or has made 64 in this round of this home. A sender''s share '
    '(charge_share) is of a time as long as a round, which begins anywhere in one. Its number.';
