-- Partners may be hostile: what one sends, holds or leaves undone reaches nobody but itself.

-- The audit is chained when a transaction ends ---------------------------------------------------

CREATE TABLE medusa.audit_entry (
    entry_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    what     text NOT NULL,
    subject  text NOT NULL,
    before   jsonb,
    after    jsonb
);
COMMENT ON TABLE medusa.audit_entry IS
    'Lines of the audit of transactions that have not ended: empty for everybody else. They get '
    'their place in the chain at the end, so that an open transaction keeps nobody from writing.';

CREATE FUNCTION medusa.audited(given jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN octet_length(given::text) <= 2048 THEN given
        ELSE jsonb_strip_nulls(jsonb_build_object('bytes', octet_length(given::text),
            'sha256', encode(sha256(convert_to(given::text, 'UTF8')), 'hex'),
            'revision', left(given->>'revision', 64))) END
$$;
COMMENT ON FUNCTION medusa.audited(jsonb) IS
    'What the audit keeps of a value: of one that is longer than 2 KiB its hash.';

CREATE OR REPLACE FUNCTION medusa.write_audit(
    what text, subject text, before jsonb, after jsonb
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.audit_entry (what, subject, before, after)
    VALUES (write_audit.what, write_audit.subject, medusa.audited(write_audit.before),
        medusa.audited(write_audit.after))
$$;
COMMENT ON FUNCTION medusa.write_audit(text, text, jsonb, jsonb) IS
    'Add a line to the audit, as soon as this transaction ends well.';

CREATE FUNCTION medusa.chain_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    INSERT INTO medusa.audit (what, subject, before, after)
    VALUES (NEW.what, NEW.subject, NEW.before, NEW.after);
    DELETE FROM medusa.audit_entry AS e WHERE e.entry_id = NEW.entry_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.chain_audit() IS
    'At the end of a transaction its lines go to the end of the audit, in order.';
CREATE CONSTRAINT TRIGGER chain AFTER INSERT ON medusa.audit_entry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION medusa.chain_audit();

-- The inbox: rooms, shares, refusals -------------------------------------------------------------

CREATE FUNCTION medusa.room_of(kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$$ SELECT CASE WHEN kind IN ('offer', 'answer') THEN 'market' ELSE 'contracts' END $$;
COMMENT ON FUNCTION medusa.room_of(text) IS
    'Which room of a sender''s in the inbox an envelope takes: offers fill none but their own.';

ALTER TABLE medusa.inbox ADD COLUMN bytes integer NOT NULL DEFAULT 0;
ALTER TABLE medusa.inbox ADD COLUMN came_from inet NOT NULL DEFAULT '0.0.0.0';
UPDATE medusa.inbox SET bytes = octet_length(body);
UPDATE medusa.inbox SET body = '' WHERE state IN ('handled', 'refused');
COMMENT ON COLUMN medusa.inbox.body IS 'Nothing once it has been handled or refused.';
COMMENT ON COLUMN medusa.inbox.bytes IS 'How long the body was.';
COMMENT ON COLUMN medusa.inbox.came_from IS
    'The address of the login that put it in: before it is verified, all else may be made up.';
COMMENT ON COLUMN medusa.inbox.repeats IS
    'How often the same envelope came again; of a refused one, how many alike followed it.';
DROP INDEX medusa.inbox_received;
CREATE INDEX inbox_received ON medusa.inbox (sender, medusa.room_of(kind), came_from, envelope_id)
    WHERE state = 'received';
COMMENT ON INDEX medusa.inbox_received IS 'What is to be verified.';
DROP INDEX medusa.inbox_of_sender;
CREATE INDEX inbox_of_sender ON medusa.inbox (sender, medusa.room_of(kind))
    WHERE state IN ('verified', 'handled');
COMMENT ON INDEX medusa.inbox_of_sender IS 'How much of a sender is kept.';
DROP INDEX medusa.inbox_refused;
CREATE INDEX inbox_refused ON medusa.inbox (sender, envelope_id) WHERE state = 'refused';
COMMENT ON INDEX medusa.inbox_refused IS 'What may be forgotten, by sender.';

CREATE TABLE medusa.inbox_repeat (
    repeat_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    envelope_id bigint NOT NULL
);
COMMENT ON TABLE medusa.inbox_repeat IS
    'Envelopes that came again, until they are counted in the inbox: whoever sends one locks no '
    'row that others need.';
CREATE INDEX inbox_repeat_of ON medusa.inbox_repeat (envelope_id);
COMMENT ON INDEX medusa.inbox_repeat_of IS 'How often an envelope came again.';

CREATE TABLE medusa.partner_share (
    partner  text COLLATE "C" NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    began_at timestamptz NOT NULL,
    messages integer NOT NULL,
    bytes    bigint NOT NULL,
    PRIMARY KEY (partner, kind)
);
COMMENT ON TABLE medusa.partner_share IS
    'What a partner has sent of each kind since a time, verified: when its share is used up it is '
    'refused until the time is over. Of the kind kept: what lies here of its offers and answers.';

CREATE TABLE medusa.message_retention (
    is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    keep    interval NOT NULL DEFAULT '31 days'
        CHECK (keep >= '1 day' AND keep <= '3650 days')
);
COMMENT ON TABLE medusa.message_retention IS
    'How long offers, answers and refusals are kept, which the owner sets: one row.';
INSERT INTO medusa.message_retention DEFAULT VALUES;

CREATE FUNCTION medusa.messages_kept() RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS
$$ SELECT coalesce((SELECT r.keep FROM medusa.message_retention AS r), '31 days'::interval) $$;
COMMENT ON FUNCTION medusa.messages_kept() IS 'For how long offers, answers and refusals stay.';

ALTER TABLE medusa.contract_order ADD COLUMN brought_by text COLLATE "C";
COMMENT ON COLUMN medusa.contract_order.brought_by IS
    'The partner that named it here first; NULL: this home.';
CREATE INDEX contract_order_brought ON medusa.contract_order (brought_by);
COMMENT ON INDEX medusa.contract_order_brought IS 'How many contracts a partner has named.';
CREATE INDEX contract_proposal_of_party ON medusa.contract_proposal (proposed_by, made_at);
COMMENT ON INDEX medusa.contract_proposal_of_party IS 'What a party has proposed lately.';

CREATE OR REPLACE FUNCTION medusa.lock_contract(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM medusa.check_names(lock_contract.contract);
    UPDATE medusa.contract_order AS o SET edits = o.edits + 1
    WHERE o.contract = lock_contract.contract;
    IF NOT FOUND THEN
        IF (SELECT count(*) FROM medusa.contract_order AS o WHERE o.brought_by IS NULL) >= 10000
        THEN
            RAISE EXCEPTION 'this home has named 10,000 contracts: it takes no more'
                USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa.contract_order (contract) VALUES (lock_contract.contract)
        ON CONFLICT DO NOTHING;
        UPDATE medusa.contract_order AS o SET edits = o.edits + 1
        WHERE o.contract = lock_contract.contract;
    END IF;
END $$;
COMMENT ON FUNCTION medusa.lock_contract(text) IS
    'Edits and documents of one contract come one after the other, from here to the end of the '
    'transaction.';

CREATE FUNCTION medusa.refuse_too_much(what text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'too much: %', what USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.refuse_too_much(text) IS
    'Refuse what is beyond a partner''s share: refusals that begin so are recorded once an hour.';

CREATE FUNCTION medusa.charge_share(envelope medusa.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    lasts_ms     bigint := 3600000;
    messages_max integer := 4096;
    bytes_max    bigint := 67108864;
    used         medusa.partner_share;
BEGIN
    IF envelope.kind IN ('offer', 'answer') THEN
        SELECT coalesce(max(m.round_ms), 60000) INTO lasts_ms FROM medusa.market AS m;
        messages_max := CASE envelope.kind WHEN 'offer' THEN 64 ELSE 128 END;
        bytes_max := 524288;
    ELSIF envelope.kind = 'want' THEN
        messages_max := 1024;
    ELSIF envelope.kind = 'notice' THEN
        messages_max := 2048;
    ELSIF envelope.kind IN ('standing', 'holdings') THEN
        messages_max := 512;
    END IF;
    INSERT INTO medusa.partner_share AS s (partner, kind, began_at, messages, bytes)
    VALUES (envelope.sender, envelope.kind, clock_timestamp(), 1, envelope.bytes)
    ON CONFLICT (partner, kind) DO UPDATE SET (began_at, messages, bytes) = (
        SELECT CASE WHEN w.is_over THEN EXCLUDED.began_at ELSE s.began_at END,
            CASE WHEN w.is_over THEN 1 ELSE s.messages + 1 END,
            CASE WHEN w.is_over THEN EXCLUDED.bytes ELSE s.bytes + EXCLUDED.bytes END
        FROM (SELECT s.began_at + lasts_ms * interval '1 ms' <= clock_timestamp()) AS w (is_over))
    RETURNING s.* INTO used;
    IF used.messages > messages_max OR used.bytes > bytes_max THEN
        PERFORM medusa.refuse_too_much(format('%s has sent %s messages of kind %s, or %s bytes of '
            'them, within %s s: it may make no more until they are over', envelope.sender,
            messages_max, envelope.kind, bytes_max, lasts_ms / 1000));
    END IF;
END $$;
COMMENT ON FUNCTION medusa.charge_share(medusa.inbox) IS
    'Count a verified envelope against its sender''s share of its kind: of offers and answers a '
    'round''s, of messages about contracts an hour''s.';

CREATE FUNCTION medusa.count_kept() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    sender text;
    more   bigint;
BEGIN
    IF TG_OP = 'INSERT' AND NOT NEW.is_own THEN
        more := octet_length(NEW.body);
        SELECT o.partner INTO sender FROM medusa.offer AS o WHERE o.offer_id = NEW.offer_id;
    ELSIF TG_OP = 'DELETE' AND NOT OLD.is_own THEN
        more := -octet_length(OLD.body);
        IF TG_TABLE_NAME = 'offer' THEN
            sender := OLD.partner;
        ELSE
            SELECT o.partner INTO sender FROM medusa.offer AS o WHERE o.offer_id = OLD.offer_id;
        END IF;
    END IF;
    INSERT INTO medusa.partner_share AS s (partner, kind, began_at, messages, bytes)
    SELECT sender, 'kept', clock_timestamp(), sign(more), more WHERE more IS NOT NULL
    ON CONFLICT (partner, kind) DO UPDATE SET messages = s.messages + EXCLUDED.messages,
        bytes = s.bytes + EXCLUDED.bytes;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.count_kept() IS
    'How much is kept of what a partner has offered and answered.';
CREATE TRIGGER count_kept AFTER INSERT OR DELETE ON medusa.offer
    FOR EACH ROW EXECUTE FUNCTION medusa.count_kept();
CREATE TRIGGER count_kept AFTER INSERT OR DELETE ON medusa.answer
    FOR EACH ROW EXECUTE FUNCTION medusa.count_kept();
INSERT INTO medusa.partner_share (partner, kind, began_at, messages, bytes)
SELECT k.partner, 'kept', clock_timestamp(), count(*), sum(octet_length(k.body)) FROM (
    SELECT o.partner, o.body FROM medusa.offer AS o WHERE NOT o.is_own
    UNION ALL SELECT o.partner, a.body FROM medusa.answer AS a
    JOIN medusa.offer AS o ON o.offer_id = a.offer_id WHERE NOT a.is_own) AS k
GROUP BY k.partner;

CREATE FUNCTION medusa.charge_market(envelope medusa.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (
        SELECT FROM medusa.partner_share AS s
        WHERE s.partner = envelope.sender AND s.kind = 'kept' AND s.bytes > 268435456)
    THEN
        PERFORM medusa.refuse_too_much(format('offers and answers of %s fill its 256 MiB: it is '
            'heard again when the oldest have gone (medusa.message_retention)', envelope.sender));
    END IF;
END $$;
COMMENT ON FUNCTION medusa.charge_market(medusa.inbox) IS
    'Refuse offers and answers of a partner of whom 256 MiB are kept.';

CREATE FUNCTION medusa.charge_contracts(envelope medusa.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given  jsonb := convert_from(envelope.body, 'UTF8')::jsonb;
    named  text;
    lately bigint;
    kept   bigint;
BEGIN
    IF envelope.kind = 'document' THEN
        named := (given->>'document')::jsonb->>'contract';
    ELSE
        named := given->>'contract';
    END IF;
    -- Its first edit is this one, whose lock is held: nobody else has named it before. What both
    -- have signed this home has named itself, and lost.
    UPDATE medusa.contract_order AS o SET brought_by = envelope.sender
    WHERE o.contract = named AND o.edits = 1 AND o.brought_by IS NULL
        AND NOT (envelope.kind = 'document'
            AND (SELECT count(*) FROM jsonb_object_keys(given->'signatures')) = 2);
    IF FOUND AND (SELECT count(*) FROM medusa.contract_order AS o
        WHERE o.brought_by = envelope.sender) > 2048
    THEN
        PERFORM medusa.refuse_too_much(format('%s has named 2,048 contracts here: it may name no '
            'more', envelope.sender));
    END IF;
    IF envelope.kind <> 'document' OR given->>'proposal' IS NULL THEN
        RETURN;
    END IF;
    SELECT count(*) INTO lately FROM medusa.contract_proposal AS p
    WHERE p.proposed_by = envelope.sender AND p.made_at > clock_timestamp() - interval '1 day';
    IF lately >= 4096 THEN
        PERFORM medusa.refuse_too_much(format('%s has proposed 4,096 times within a day: it may '
            'propose no more until that is over', envelope.sender));
    END IF;
    SELECT sum(octet_length(r.document)) INTO kept FROM medusa.contract_revision AS r
    WHERE r.revision IN (
            SELECT p.revision FROM medusa.contract_proposal AS p
            WHERE p.proposed_by = envelope.sender)
        AND NOT EXISTS (
            SELECT FROM medusa.contract_agreement AS a WHERE a.revision = r.revision);
    IF kept > 33554432 THEN
        PERFORM medusa.refuse_too_much(format('what %s has proposed and nobody agreed on fills its '
            '32 MiB: agree on something with it, or make a contract yourself', envelope.sender));
    END IF;
END $$;
COMMENT ON FUNCTION medusa.charge_contracts(medusa.inbox) IS
    'Refuse contracts beyond the 2,048 that a partner may name here, proposals beyond 4,096 a day, '
    'and beyond 32 MiB of what was never agreed on. What both have signed is no proposal.';

CREATE FUNCTION medusa.charge(envelope medusa.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM medusa.charge_share(envelope);
    IF medusa.room_of(envelope.kind) = 'market' THEN
        PERFORM medusa.charge_market(envelope);
    ELSIF envelope.kind IN ('document', 'withdrawal', 'let_go', 'want', 'notice', 'refusal') THEN
        PERFORM medusa.charge_contracts(envelope);
    END IF;
    DELETE FROM medusa.delivery_pause AS p WHERE p.partner = envelope.sender;
END $$;
COMMENT ON FUNCTION medusa.charge(medusa.inbox) IS
    'A verified envelope counts against its sender''s bounds, once; refused beyond them. Who is '
    'heard of is sent to again.';

CREATE OR REPLACE FUNCTION medusa.end_envelope(envelope_id bigint) RETURNS medusa.inbox
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    envelope medusa.inbox;
BEGIN
    SELECT * INTO envelope FROM medusa.inbox AS i
    WHERE i.envelope_id = end_envelope.envelope_id AND i.state IN ('received', 'verified')
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'envelope % is handled already: look at the next', envelope_id
            USING ERRCODE = 'MD002';
    END IF;
    UPDATE medusa.inbox AS i SET state = 'handled', reason = NULL, body = '',
        ended_at = clock_timestamp()
    WHERE i.envelope_id = end_envelope.envelope_id;
    IF envelope.state = 'received' THEN
        PERFORM medusa.charge(envelope);
    END IF;
    RETURN envelope;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the nonce has been used before: this is a replay' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.end_envelope(bigint) IS
    'An envelope is handled, in the transaction that does what it says; its nonce counts once. As '
    'it was before.';

CREATE OR REPLACE FUNCTION medusa.verify_envelope(envelope_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
BEGIN
    UPDATE medusa.inbox AS i SET state = 'verified'
    WHERE i.envelope_id = verify_envelope.envelope_id AND i.state = 'received'
    RETURNING * INTO envelope;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM medusa.charge(envelope);
    RETURN true;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the nonce has been used before: this is a replay' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.verify_envelope(bigint) IS
    'An envelope is its sender''s, and waits to be handled; its nonce counts once. Refused beyond '
    'its sender''s share.';

CREATE OR REPLACE FUNCTION medusa.handle_envelope(envelope_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.inbox AS i SET state = 'handled', body = '', ended_at = clock_timestamp()
    WHERE i.envelope_id = handle_envelope.envelope_id AND i.state = 'verified';
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa.handle_envelope(bigint) IS
    'A verified envelope has been handled; false if it was before.';

CREATE OR REPLACE FUNCTION medusa.refuse_envelope(envelope_id bigint, reason text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    refused medusa.inbox;
    said    text := left(refuse_envelope.reason, 500);
    alike   bigint;
    last_id bigint;
BEGIN
    SELECT * INTO refused FROM medusa.inbox AS i
    WHERE i.envelope_id = refuse_envelope.envelope_id AND i.state IN ('received', 'verified')
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    SELECT count(*), max(i.envelope_id) INTO alike, last_id FROM medusa.inbox AS i
    WHERE i.state = 'refused' AND i.sender = refused.sender AND i.kind = refused.kind
        AND i.reason = said AND i.ended_at > clock_timestamp() - interval '1 hour';
    IF alike >= (CASE WHEN said LIKE 'too much: %' THEN 1 ELSE 16 END) THEN
        UPDATE medusa.inbox AS i SET repeats = i.repeats + 1 WHERE i.envelope_id = last_id;
        DELETE FROM medusa.inbox AS i WHERE i.envelope_id = refused.envelope_id;
    ELSE
        UPDATE medusa.inbox AS i SET state = 'refused', reason = said, body = '',
            ended_at = clock_timestamp()
        WHERE i.envelope_id = refused.envelope_id;
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.refuse_envelope(bigint, text) IS
    'An envelope counts for nothing, and why; false if it has been handled. After 16 alike of a '
    'sender within an hour, and after one that was beyond its share, the others are only counted.';

-- The door ---------------------------------------------------------------------------------------

CREATE FUNCTION medusa.decoded(given text, format text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN decode(given, format);
EXCEPTION WHEN data_exception THEN
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.decoded(text, text) IS 'The bytes that a text stands for; NULL of none.';

CREATE FUNCTION medusa.take_envelope(given jsonb, crowded text[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    content  bytea := medusa.decoded(given->>'body', 'base64');
    sealed   bytea := medusa.decoded(given->>'signature', 'hex');
    said_by  text := given->>'sender';
    of_kind  text := given->>'kind';
    room     text := medusa.room_of(given->>'kind');
    address  inet := coalesce(inet_client_addr(), '0.0.0.0');
    too_long boolean := octet_length(content) > 98304;
    whole    bytea;
    found_id bigint;
BEGIN
    -- 1 Is it an envelope, of somebody known? Nothing is kept of what is not.
    IF jsonb_typeof(given) <> 'object'
        OR medusa.is_name(said_by) IS NOT TRUE OR medusa.is_name(given->>'receiver') IS NOT TRUE
        OR (of_kind ~ '^[a-z][a-z_]{0,30}$') IS NOT TRUE
        OR (given->>'nonce' ~ '^[0-9a-f]{32}$') IS NOT TRUE
        OR (given->>'sent_at_ms' ~ '^[0-9]{1,18}$') IS NOT TRUE
        OR (given->>'expires_at_ms' ~ '^[0-9]{1,18}$') IS NOT TRUE
        OR content IS NULL OR (octet_length(sealed) = 64) IS NOT TRUE
    THEN
        RETURN 'refused: this is no envelope';
    ELSIF said_by = medusa.here() THEN
        RETURN 'refused: it is sent in the name of ' || said_by || ', whose home this is';
    ELSIF medusa.key_of(said_by) IS NULL THEN
        RETURN 'refused: no key of ' || said_by || ' is known here: if it is a partner, let the '
            'owner call medusa_api.learn_key';
    END IF;

    -- 2 Is there room? Unverified ones count by where they came from, whoever they name.
    IF (SELECT count(*) >= 256 OR sum(i.bytes) > 8388608 FROM medusa.inbox AS i
            WHERE i.state = 'received' AND i.sender = said_by
                AND medusa.room_of(i.kind) = room AND i.came_from = address)
        OR said_by || '/' || room = ANY (crowded)
        OR (SELECT count(*) >= 2048 OR sum(i.bytes) > 67108864 FROM medusa.inbox AS i
            WHERE i.state = 'received' AND i.came_from = address)
        OR (SELECT count(*) >= 32768 OR sum(i.bytes) > 1073741824 FROM medusa.inbox AS i
            WHERE i.state = 'received')
        OR too_long AND (SELECT count(*) >= 200 FROM medusa.inbox AS i
            WHERE i.state = 'refused' AND i.sender = said_by)
    THEN
        RETURN 'full: send it again later';
    END IF;

    -- 3 Put it in. No row that is there already is touched: this transaction may stay open.
    whole := sha256(convert_to(jsonb_build_array(of_kind, said_by, given->>'receiver',
        given->>'nonce', (given->>'sent_at_ms')::bigint, (given->>'expires_at_ms')::bigint,
        encode(sha256(content), 'hex'), encode(sealed, 'hex'))::text, 'UTF8'));
    INSERT INTO medusa.inbox (sender, receiver, kind, nonce, sent_at_ms, expires_at_ms, body,
        signature, hash, state, reason, ended_at, bytes, came_from)
    VALUES (said_by, given->>'receiver', of_kind, given->>'nonce', (given->>'sent_at_ms')::bigint,
        (given->>'expires_at_ms')::bigint, CASE WHEN too_long THEN '' ELSE content END, sealed,
        whole, CASE WHEN too_long THEN 'refused' ELSE 'received' END,
        CASE WHEN too_long THEN 'it is longer than 96 KiB' END,
        CASE WHEN too_long THEN clock_timestamp() END, octet_length(content), address)
    ON CONFLICT (hash) DO NOTHING RETURNING inbox.envelope_id INTO found_id;
    IF found_id IS NULL
        AND (SELECT count(*) FROM (SELECT FROM medusa.inbox_repeat LIMIT 10000) AS r) < 10000
    THEN
        INSERT INTO medusa.inbox_repeat (envelope_id)
        SELECT i.envelope_id FROM medusa.inbox AS i WHERE i.hash = whole;
    END IF;
    RETURN CASE WHEN too_long THEN 'refused: it is longer than 96 KiB' ELSE 'taken' END;
END $$;
COMMENT ON FUNCTION medusa.take_envelope(jsonb, text[]) IS
    'Put one envelope into the inbox, as it is: taken (also if it came before), refused or full. '
    'Crowded are rooms of senders (sender/room) of which as much is remembered as may be.';

CREATE OR REPLACE FUNCTION medusa.take_envelopes(envelopes jsonb) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given   jsonb;
    crowded text[];
    answers text[] := '{}';
BEGIN
    IF (pg_column_size(envelopes) <= 16777216 AND jsonb_typeof(envelopes) = 'array'
        AND jsonb_array_length(envelopes) <= 64) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'envelopes come in a list of 64 at most, 16 MiB in all: send fewer'
            USING ERRCODE = 'MD001';
    END IF;
    crowded := ARRAY(
        SELECT n.sender || '/' || n.room FROM (
            SELECT DISTINCT e->>'sender' AS sender, medusa.room_of(e->>'kind') AS room
            FROM jsonb_array_elements(envelopes) AS e) AS n
        WHERE (SELECT count(*) FROM medusa.inbox AS i
            WHERE i.state IN ('verified', 'handled') AND i.sender = n.sender
                AND medusa.room_of(i.kind) = n.room) >= 32768);
    FOR given IN SELECT e FROM jsonb_array_elements(envelopes) AS e LOOP
        answers := answers || medusa.take_envelope(given, crowded);
    END LOOP;
    PERFORM pg_notify('medusa_progress', '');
    RETURN answers;
END $$;
COMMENT ON FUNCTION medusa.take_envelopes(jsonb) IS
    'For partners: put envelopes into the inbox, as they are, and no more: 64 at a time, 96 KiB '
    'each, of somebody whose key is known. Of a sender 256 wait in each of its two rooms from one '
    'address, and 32,768 are remembered until they are stale. An answer to each: taken (also if it '
    'came before), refused or full.';

-- Deliveries -------------------------------------------------------------------------------------

CREATE TABLE medusa.delivery_pause (
    partner  text COLLATE "C" PRIMARY KEY,
    failed   integer NOT NULL CHECK (failed > 0),
    since    timestamptz NOT NULL,
    tries_at timestamptz NOT NULL,
    problem  text NOT NULL
);
COMMENT ON TABLE medusa.delivery_pause IS
    'Partners whose inbox took nothing lately: how often in a row, since when, why, and when it is '
    'tried again. Gone as soon as one is reached or heard of.';

CREATE FUNCTION medusa.pause_delivery(partner text, problem text, jitter double precision)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    wait_s double precision := 0.5 + least(greatest(coalesce(jitter, 0), 0), 1);
BEGIN
    PERFORM medusa.check_names(pause_delivery.partner);
    INSERT INTO medusa.delivery_pause AS p (partner, failed, since, tries_at, problem)
    VALUES (pause_delivery.partner, 1, clock_timestamp(),
        clock_timestamp() + wait_s * interval '1 s', left(pause_delivery.problem, 500))
    ON CONFLICT ON CONSTRAINT delivery_pause_pkey DO UPDATE SET failed = p.failed + 1,
        problem = EXCLUDED.problem,
        tries_at = clock_timestamp() + wait_s * least(1 << least(p.failed, 6), 60)
            * interval '1 s';
END $$;
COMMENT ON FUNCTION medusa.pause_delivery(text, text, double precision) IS
    'A partner''s inbox took nothing: it is left alone for a second, twice as long each time, up '
    'to a minute, by half of it more or less as jitter (0 to 1) says.';

CREATE FUNCTION medusa.resume_delivery(partner text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS
$$ DELETE FROM medusa.delivery_pause AS p WHERE p.partner = resume_delivery.partner $$;
COMMENT ON FUNCTION medusa.resume_delivery(text) IS 'A partner''s inbox takes messages.';

CREATE OR REPLACE FUNCTION medusa.acknowledge_message(message_id bigint, problem text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.outbox AS o SET problem = left(acknowledge_message.problem, 500),
        acknowledged_at = CASE WHEN acknowledge_message.problem IS NULL THEN clock_timestamp() END,
        body = CASE WHEN acknowledge_message.problem IS NULL THEN '' ELSE o.body END
    WHERE o.message_id = acknowledge_message.message_id AND o.acknowledged_at IS NULL
        AND (acknowledge_message.problem IS NULL OR o.problem IS DISTINCT FROM
            left(acknowledge_message.problem, 500));
END $$;
COMMENT ON FUNCTION medusa.acknowledge_message(bigint, text) IS
    'A message lies in the partner''s inbox (problem NULL), or why it does not.';

-- Rounds are opened where there is something to trade under --------------------------------------

CREATE FUNCTION medusa.round_is_due() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(max(r.opened_at) + coalesce(max(m.round_ms), 60000) * interval '1 ms'
            <= clock_timestamp(), true)
        AND (EXISTS (
                SELECT FROM medusa.contract_agreement AS a
                JOIN medusa.contract_revision AS t ON t.revision = a.revision
                WHERE upper(t.validity) > clock_timestamp()
                    AND coalesce(medusa.ends_at(a.contract) > clock_timestamp(), true))
            OR EXISTS (SELECT FROM medusa.open_offer)
            OR EXISTS (SELECT FROM medusa.agreed_move AS g WHERE g.state <> 'lapsed'))
    FROM (SELECT 1) AS one LEFT JOIN medusa.market AS m ON true
    LEFT JOIN LATERAL (
        SELECT o.opened_at FROM medusa.round AS o ORDER BY o.number DESC LIMIT 1) AS r ON true
$$;
COMMENT ON FUNCTION medusa.round_is_due() IS
    'Whether a round is to be opened now: its time has passed, and a contract that was agreed has '
    'not ended, or something is offered or agreed.';

CREATE OR REPLACE FUNCTION medusa.expire_proposals() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    proposal medusa.contract_proposal;
    ended    integer := 0;
    now_is   timestamptz := clock_timestamp();
    those    text[];
BEGIN
    -- Locks of contracts come before the audit's; what somebody edits now expires the next time.
    those := ARRAY(
        SELECT o.contract FROM medusa.contract_order AS o
        WHERE o.contract IN (
            SELECT p.contract FROM medusa.contract_proposal AS p
            WHERE p.state = 'open' AND p.expires_at <= now_is)
        ORDER BY o.contract FOR UPDATE SKIP LOCKED);
    FOR proposal IN SELECT * FROM medusa.contract_proposal AS p
        WHERE p.state = 'open' AND p.expires_at <= now_is AND p.contract = ANY (those)
        ORDER BY p.contract, p.proposal_id
    LOOP
        PERFORM medusa.end_proposal(proposal, 'expired');
        ended := ended + 1;
    END LOOP;
    RETURN ended;
END $$;
COMMENT ON FUNCTION medusa.expire_proposals() IS
    'Proposals whose time has passed are open no more; how many.';

CREATE OR REPLACE FUNCTION medusa.open_round(
    round_ms bigint, because text DEFAULT 'the time has passed'
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    last   medusa.round;
    now_is timestamptz;
    agreed record;
    those  text[];
BEGIN
    PERFORM medusa.check_length('a round', round_ms, 0);
    LOCK TABLE medusa.round IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO last FROM medusa.round ORDER BY number DESC LIMIT 1;
    now_is := clock_timestamp();
    IF medusa.to_ms(last.opened_at) + round_ms > medusa.to_ms(now_is) THEN
        RETURN NULL;
    END IF;
    INSERT INTO medusa.round (number, opened_at, because)
    VALUES (coalesce(last.number, 0) + 1, now_is, open_round.because)
    RETURNING * INTO last;
    -- Locks of contracts come before the audit's; what somebody edits now is active from a later
    -- round on, and keeps this one from nothing.
    those := ARRAY(
        SELECT o.contract FROM medusa.contract_order AS o
        WHERE o.contract IN (
            SELECT a.contract FROM medusa.contract_agreement AS a
            WHERE NOT EXISTS (
                SELECT FROM medusa.contract_activation AS v WHERE v.revision = a.revision))
        ORDER BY o.contract FOR UPDATE SKIP LOCKED);
    FOR agreed IN
        SELECT a.revision, a.contract, a.number FROM medusa.contract_agreement AS a
        WHERE a.agreed_at <= now_is AND a.contract = ANY (those) AND NOT EXISTS (
            SELECT FROM medusa.contract_activation AS v WHERE v.revision = a.revision)
        ORDER BY a.contract, a.number
    LOOP
        INSERT INTO medusa.contract_activation (revision, contract, number, round)
        VALUES (agreed.revision, agreed.contract, agreed.number, last.number);
        PERFORM medusa.claim_subjects(agreed.contract);
        PERFORM medusa.write_audit('activated', agreed.contract, to_jsonb(last.number),
            to_jsonb(agreed.revision));
    END LOOP;
    RETURN last.number;
END $$;
COMMENT ON FUNCTION medusa.open_round(bigint, text) IS
    'Open the next round if so much time has passed since the last (0: in any case); its number, '
    'or NULL. Whoever comes at the same time waits and gets NULL. What is agreed is active from it '
    'on, unless somebody is just editing it.';

-- Housekeeping: what partners brought does not stay for ever -------------------------------------

DROP TRIGGER insert_only ON medusa.offer;
DROP TRIGGER insert_only ON medusa.offer_lapse;
DROP TRIGGER insert_only ON medusa.answer;

CREATE FUNCTION medusa.guard_message() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made_at timestamptz;
BEGIN
    IF TG_TABLE_NAME = 'offer_lapse' THEN
        SELECT o.made_at INTO made_at FROM medusa.offer AS o WHERE o.offer_id = OLD.offer_id;
    ELSE
        made_at := OLD.made_at;
    END IF;
    IF made_at < clock_timestamp() - medusa.messages_kept() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of % is refused: it is insert-only for as long as '
        'medusa.message_retention says', TG_TABLE_NAME USING ERRCODE = 'MDLOG';
END $$;
COMMENT ON FUNCTION medusa.guard_message() IS
    'Raises: an offer or an answer goes when it is older than kept.';
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.offer
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_message();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.offer
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.offer_lapse
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_message();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.offer_lapse
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.answer
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_message();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.answer
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE INDEX offer_made ON medusa.offer (made_at);
COMMENT ON INDEX medusa.offer_made IS 'The oldest offers.';
CREATE INDEX answer_made ON medusa.answer (made_at);
COMMENT ON INDEX medusa.answer_made IS 'The oldest answers.';

CREATE FUNCTION medusa.tidy_market(rows_max integer) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before timestamptz := clock_timestamp() - medusa.messages_kept();
    ended  bigint[];
    gone   bigint;
BEGIN
    DELETE FROM medusa.answer AS a WHERE a.answer_id IN (
        SELECT o.answer_id FROM medusa.answer AS o
        WHERE o.made_at < before
            AND NOT EXISTS (SELECT FROM medusa.last_word AS w WHERE w.answer_id = o.answer_id)
            AND NOT EXISTS (SELECT FROM medusa.agreed_move AS m WHERE m.answer_id = o.answer_id)
        ORDER BY o.made_at LIMIT rows_max FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS gone = ROW_COUNT;
    ended := ARRAY(
        SELECT o.offer_id FROM medusa.offer AS o
        WHERE o.made_at < before
            AND NOT EXISTS (SELECT FROM medusa.open_offer AS w WHERE w.offer_id = o.offer_id)
            AND NOT EXISTS (SELECT FROM medusa.answer AS a WHERE a.offer_id = o.offer_id)
        ORDER BY o.made_at LIMIT rows_max FOR UPDATE SKIP LOCKED);
    DELETE FROM medusa.offer_lapse AS l WHERE l.offer_id = ANY (ended);
    DELETE FROM medusa.offer AS o WHERE o.offer_id = ANY (ended);
    RETURN gone + cardinality(ended);
END $$;
COMMENT ON FUNCTION medusa.tidy_market(integer) IS
    'Let offers and answers go that are older than kept, and that no agreed move and no last word '
    'rests on; how many went.';

CREATE OR REPLACE FUNCTION medusa.tidy_inbox() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    WITH again AS (
        DELETE FROM medusa.inbox_repeat AS r WHERE r.repeat_id IN (
            SELECT o.repeat_id FROM medusa.inbox_repeat AS o LIMIT 10000 FOR UPDATE SKIP LOCKED)
        RETURNING r.envelope_id
    )
    UPDATE medusa.inbox AS i SET repeats = i.repeats + n.times
    FROM (SELECT a.envelope_id, count(*) AS times FROM again AS a GROUP BY a.envelope_id) AS n
    WHERE i.envelope_id = n.envelope_id;
    DELETE FROM medusa.inbox AS i WHERE i.envelope_id IN (
        SELECT o.envelope_id FROM medusa.inbox AS o WHERE o.envelope_id IN (
            SELECT n.envelope_id FROM (
                SELECT r.envelope_id, r.ended_at, row_number() OVER (
                    PARTITION BY r.sender ORDER BY r.envelope_id DESC) AS place
                FROM medusa.inbox AS r WHERE r.state = 'refused') AS n
            WHERE n.place > 100 OR n.ended_at < clock_timestamp() - medusa.messages_kept())
        FOR UPDATE SKIP LOCKED);
    DELETE FROM medusa.inbox AS i WHERE i.envelope_id IN (
        SELECT o.envelope_id FROM medusa.inbox AS o
        WHERE o.state = 'handled' AND o.expires_at_ms < medusa.to_ms(clock_timestamp())
        FOR UPDATE SKIP LOCKED);
END $$;
COMMENT ON FUNCTION medusa.tidy_inbox() IS
    'Count what came again; keep the last 100 refused envelopes of a sender, and what would count '
    'again if it came again. What somebody has hold of waits for the next time.';

CREATE FUNCTION medusa.tidy_outbox() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM medusa.outbox AS o WHERE o.message_id IN (
        SELECT m.message_id FROM medusa.outbox AS m
        WHERE m.acknowledged_at < clock_timestamp() - CASE WHEN m.about LIKE 'proposal/%'
                THEN interval '62 days' ELSE interval '1 hour' END
            AND (m.kind <> 'notice' OR EXISTS (
                SELECT FROM medusa.outbox AS e
                WHERE e.receiver = m.receiver AND e.about = m.about
                    AND e.acknowledged_at < m.acknowledged_at))
            OR m.acknowledged_at IS NULL AND m.kind IN ('offer', 'answer')
                AND m.put_at < clock_timestamp() - interval '1 day'
        FOR UPDATE SKIP LOCKED)
$$;
COMMENT ON FUNCTION medusa.tidy_outbox() IS
    'Forget what partners have: proposals when they cannot come back any more, all else after an '
    'hour, but not when the first notice of a contract came, on which depends when it ends; and offers and answers that could not be sent for a day.';

CREATE FUNCTION medusa.end_guests(open_ms bigint) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    ended integer;
BEGIN
    SELECT count(*) FILTER (WHERE pg_terminate_backend(s.pid)) INTO ended
    FROM pg_stat_activity AS s
    WHERE s.datname = current_database() AND s.usename = current_database() || '_reader'
        AND s.pid <> pg_backend_pid()
        AND s.xact_start < clock_timestamp() - greatest(open_ms, 0) * interval '1 ms';
    RETURN ended;
EXCEPTION WHEN insufficient_privilege THEN
    RETURN 0;  -- a home whose keeper was not given this right; the role's own settings remain
END $$;
COMMENT ON FUNCTION medusa.end_guests(bigint) IS
    'End sessions of partners'' logins that have a transaction open for longer, whatever these '
    'have set; how many.';

CREATE FUNCTION medusa.tidy_partners(open_ms bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM medusa.tidy_inbox();
    PERFORM medusa.tidy_outbox();
    RETURN medusa.tidy_market(1000) + medusa.end_guests(open_ms);
END $$;
COMMENT ON FUNCTION medusa.tidy_partners(bigint) IS
    'Housekeeping of what partners send and are sent, a piece of it; how many offers and answers '
    'went, and sessions that had a transaction open for longer than open_ms.';

CREATE OR REPLACE VIEW medusa_api.inbox WITH (security_invoker = true) AS
    SELECT i.envelope_id, i.sender, i.kind, i.state, i.reason, i.repeats + (
            SELECT count(*) FROM medusa.inbox_repeat AS r WHERE r.envelope_id = i.envelope_id)
            AS repeats,
        i.received_at, i.ended_at, i.bytes, i.nonce
    FROM medusa.inbox AS i;

-- What the owner may do, one by one: what is not named here is not its own to do -----------------

CREATE OR REPLACE FUNCTION medusa.grant_all_to_owner() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role   text := current_database() || '_owner';
    rights text;
BEGIN
    -- A home of one login has no other owner than the one of its tables.
    IF role = current_user OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        RETURN;
    END IF;
    FOREACH rights IN ARRAY ARRAY[
        'USAGE ON SCHEMA medusa, medusa_api',
        -- Streams and their computation, within the laws that triggers keep.
        'SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON medusa.participant, medusa.home, '
            'medusa.stream, medusa.stream_order, medusa.stream_promise, medusa.network, '
            'medusa.plan, medusa.fragment, medusa.assignment, medusa.lease, '
            'medusa.stream_producer, medusa.line_version, medusa.file, medusa.commit, '
            'medusa.step_metrics, medusa.segment, medusa.lineage, medusa.landed_batch, '
            'medusa.source, medusa.landed_bucket, medusa.quarantine, medusa.quarantine_retry, '
            'medusa.hold, medusa.transition, medusa.sink, medusa.cursor, medusa.recall, '
            'medusa.recall_follow, medusa.certificate, medusa.divergence, '
            'medusa.divergence_settled',
        'EXECUTE ON FUNCTION medusa.total, medusa.note_standing, medusa.bring_order, '
            'medusa.chosen_through, medusa.check_trim, medusa.check_files, medusa.to_ms, '
            'medusa.is_held, medusa.deploy, medusa.check_epoch, medusa.check_lease, '
            'medusa.refuse_without_line, medusa.acquire_lease, medusa.renew_lease, '
            'medusa.release_lease, medusa.check_leases, medusa.lock_leases, '
            'medusa.acquire_leases, medusa.renew_leases, medusa.release_leases, '
            'medusa.check_writes, medusa.record_files, medusa.put_aside, medusa.note_retries, '
            'medusa.land, medusa.promise, medusa.lock_lines, medusa.land_many, '
            'medusa.promise_many, medusa.answer, medusa.chain_at, medusa.supersede, '
            'medusa.key_now, medusa.commit_step, medusa.commit_steps, medusa.record_transition, '
            'medusa.place_hold, medusa.release_hold, medusa.declare_retention, '
            'medusa.declare_bound, medusa.declare_verify, medusa.commit_choice, '
            'medusa.remove_trimmed, medusa.trim_line, medusa.compact_line, medusa.declare_sink, '
            'medusa.withdraw_sink, medusa.record_delivery, medusa.record_sink_problem, '
            'medusa.place_cursor, medusa.move_cursor, medusa.drop_cursor, '
            'medusa.recall_closure, medusa.lock_own_lines, medusa.settle, medusa.kept_from, '
            'medusa.recall_line, medusa.check_reason, medusa.recall, medusa.told_recall, '
            'medusa.follow_recalls, medusa.record_certificate, medusa.declare_source, '
            'medusa.line_news, medusa.acknowledge, medusa.import_line',
        'SELECT ON medusa.schema_migration, medusa_api.streams, medusa_api.segments, '
            'medusa_api.steps, medusa_api.lineage, medusa_api.quarantine, '
            'medusa_api.assignments, medusa_api.leases, medusa_api.holds, '
            'medusa_api.transitions, medusa_api.bounds, medusa_api.sinks, medusa_api.cursors, '
            'medusa_api.recalls, medusa_api.certificates, medusa_api.divergences, '
            'medusa_api.disputed, medusa_api.published_boundaries, '
            'medusa_api.published_segments, medusa_api.published_files',
        -- Agreements: they are edited by the view; signing and taking is its program's.
        'SELECT ON medusa.party_key, medusa.contract_order, medusa.contract_revision, '
            'medusa.contract_signature, medusa.contract_proposal, medusa.contract_agreement, '
            'medusa.contract_notice, medusa.round, medusa.contract_activation, '
            'medusa.contract_claim, medusa.inbox, medusa.inbox_repeat, medusa.outbox, '
            'medusa.partner_share, medusa.delivery_pause, medusa.audit, medusa.audit_head, '
            'medusa.audit_entry, medusa_api.contract_in_force, '
            'medusa_api.contract_proposals, medusa_api.contract_history, '
            'medusa_api.contract_notices, medusa_api.party_keys, medusa_api.rounds, '
            'medusa_api.inbox, medusa_api.outbox, medusa_api.audit',
        'SELECT, INSERT, UPDATE, DELETE ON medusa_api.contract',
        'EXECUTE ON FUNCTION medusa.is_name, medusa.at_ms, medusa.subject_range, '
            'medusa.json_list, medusa.contract_document, medusa.terms_of, medusa.check_amount, '
            'medusa.check_length, medusa.check_word, medusa.check_names, medusa.check_terms, '
            'medusa.sorted_terms, medusa.here, medusa.key_of, medusa.hex_key, medusa.learn_key, '
            'medusa.learn_first_key, medusa_api.learn_key, medusa_api.replace_key, '
            'medusa_api.accept_contract, medusa_api.withdraw_contract, medusa.agreed_revision, '
            'medusa.ends_at, medusa.propose, medusa.propose_document, medusa.give_notice, '
            'medusa.open_round, medusa.round_is_due, medusa.audit_hash, medusa.verify_audit, '
            'medusa.room_of, medusa.messages_kept',
        -- Load and the market: how to trade is the owner's to say, offers are its program's.
        'SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON medusa.load_sample, medusa.load_part, '
            'medusa.load_retention, medusa.cost_function, medusa.message_retention',
        'SELECT, INSERT, UPDATE, DELETE ON medusa_api.cost',
        'SELECT ON medusa_api.load_samples',
        'EXECUTE ON FUNCTION medusa.load_kept, medusa.trim_loads, medusa.record_load, '
            'medusa.is_number, medusa.check_points',
        'SELECT ON medusa.market, medusa.offer, medusa.open_offer, medusa.open_item, '
            'medusa.offer_lapse, medusa.answer, medusa.agreed_move, medusa.wanted_load, '
            'medusa.last_word, medusa.silent_partner, medusa_api.offers, medusa_api.answers, '
            'medusa_api.agreed_moves, medusa_api.trading',
        'UPDATE (round_ms, move_ms, residence_ms, dead_band, partners_max) '
            'ON medusa.market, medusa_api.trading',
        'EXECUTE ON FUNCTION medusa.price_of, medusa.terms_in_force, medusa.this_round'
    ] LOOP
        EXECUTE format('GRANT ' || rights || ' TO %I', role);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_all_to_owner() IS
    'The owner logs in without owning a table. What it may do is listed: streams within the laws, '
    'of agreements the view medusa_api.contract alone, what load costs, and how to trade. A table '
    'that no list names is out of its reach.';
REVOKE ALL ON FUNCTION medusa.grant_all_to_owner() FROM PUBLIC;

CREATE FUNCTION medusa.grant_partners_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text := current_database() || '_job';
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        EXECUTE format('GRANT SELECT ON medusa.inbox_repeat, medusa.partner_share, '
            'medusa.delivery_pause, medusa.message_retention TO %I', role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.pause_delivery, medusa.resume_delivery, '
            'medusa.tidy_partners, medusa.end_guests, medusa.round_is_due, medusa.room_of '
            'TO %I', role);
    END IF;
    PERFORM medusa.grant_all_to_owner();
END $$;
COMMENT ON FUNCTION medusa.grant_partners_to_roles() IS
    'Jobs pause deliveries and keep house; the owner has what is listed.';
REVOKE ALL ON FUNCTION medusa.grant_partners_to_roles() FROM PUBLIC;

-- The other roles' rights, without the owner's part

CREATE OR REPLACE FUNCTION medusa.grant_agreements_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text;
    role text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'analyst', 'airflow', 'reader'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        IF kind = 'reader' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.take_envelopes TO %I', role);
            CONTINUE;
        END IF;
        EXECUTE format('GRANT SELECT ON medusa.home, medusa.contract_revision, '
            'medusa.contract_proposal, medusa.contract_signature, medusa.contract_agreement, '
            'medusa.contract_activation, medusa.contract_notice, medusa.round, '
            'medusa_api.contract, medusa_api.contract_in_force, medusa_api.contract_history, '
            'medusa_api.contract_notices, medusa_api.rounds TO %I', role);
        IF kind = 'airflow' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.open_round TO %I', role);
        ELSIF kind = 'job' THEN
            EXECUTE format('GRANT SELECT ON medusa.party_key, medusa.inbox, medusa.outbox, '
                'medusa.audit, medusa.audit_head, medusa.contract_claim, '
                'medusa_api.contract_proposals, medusa_api.party_keys, medusa_api.inbox, '
                'medusa_api.outbox, medusa_api.audit TO %I', role);
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.learn_first_key, medusa.key_of, '
                'medusa.propose_document, medusa.sign_contract, medusa.take_document, '
                'medusa.take_withdrawal, medusa.take_let_go, medusa.take_want, medusa.take_notice, '
                'medusa.expire_proposals, medusa.open_round, medusa.verify_envelope, '
                'medusa.handle_envelope, medusa.refuse_envelope, medusa.keep_envelope, '
                'medusa.seal_message, medusa.acknowledge_message, medusa.put_message, '
                'medusa.tell_agreement, medusa.verify_audit, medusa.audit_hash TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_agreements_to_roles() IS
    'Jobs sign, send and take documents; analysts and Airflow see what is agreed; a partner''s '
    'reader may put envelopes into the inbox, and sees nothing.';

CREATE OR REPLACE FUNCTION medusa.grant_loads_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text;
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['job', 'airflow', 'analyst', 'reader'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('REVOKE ALL ON medusa.load_sample, medusa.load_part, medusa.load_retention, '
            'medusa.cost_function, medusa_api.cost, medusa_api.load_samples FROM %I', role);
        IF kind = 'job' THEN
            EXECUTE format('GRANT SELECT ON medusa.load_sample, medusa.load_part, '
                'medusa.load_retention, medusa.cost_function, medusa_api.cost, '
                'medusa_api.load_samples TO %I', role);
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.record_load, medusa.trim_loads TO %I',
                role);
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION medusa.grant_rounds_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text := current_database() || '_job';
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        EXECUTE format('GRANT SELECT ON medusa.market, medusa.offer, medusa.open_offer, '
            'medusa.open_item, medusa.offer_lapse, medusa.answer, medusa.agreed_move, '
            'medusa.wanted_load, medusa.last_word, medusa.silent_partner, medusa_api.offers, '
            'medusa_api.answers, '
            'medusa_api.agreed_moves, medusa_api.trading TO %I', role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.expire_market, medusa.take_offer, '
            'medusa.take_answer, medusa.apply_round TO %I', role);
    END IF;
END $$;
COMMENT ON FUNCTION medusa.grant_rounds_to_roles() IS
    'Jobs offer and answer; no other role but the owner sees anything.';

REVOKE ALL ON ALL TABLES IN SCHEMA medusa, medusa_api FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA medusa, medusa_api FROM PUBLIC;
DO $$
DECLARE
    role text := current_database() || '_owner';
BEGIN
    IF role <> current_user AND EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA medusa, medusa_api FROM %I', role);
        EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA medusa, medusa_api FROM %I', role);
        EXECUTE format('REVOKE ALL ON SCHEMA medusa, medusa_api FROM %I', role);
    END IF;
END $$;
SELECT medusa.grant_partners_to_roles();
