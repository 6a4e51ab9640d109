-- Two homes that agree in the end: what is held is stated and signed, what differs is found and asked
-- for, and of two revisions of one number both homes keep the same.

-- Keys that were replaced go on telling what was signed under them ----------------------------------

ALTER TABLE medusa.party_key ADD COLUMN is_past boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN medusa.party_key.is_past IS
    'It was replaced before this home learned of it: it tells what was signed under it, no more.';

ALTER TABLE medusa.contract_signature DROP CONSTRAINT contract_signature_pkey,
    ADD PRIMARY KEY (revision, party, public_key);

CREATE TABLE medusa.key_disowned (
    public_key  bytea PRIMARY KEY CHECK (octet_length(public_key) = 32),
    participant text COLLATE "C" NOT NULL,
    who         text NOT NULL DEFAULT session_user,
    disowned_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.key_disowned IS
    'Keys that somebody else may have used: nothing under them counts any more; insert-only.';

CREATE TABLE medusa.statement (
    statement  text COLLATE "C" NOT NULL CHECK (char_length(statement) BETWEEN 1 AND 300),
    party      text COLLATE "C" NOT NULL,
    signature  bytea NOT NULL CHECK (octet_length(signature) = 64),
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (statement, party, public_key)
);
COMMENT ON TABLE medusa.statement IS
    'What parties have stated and signed, so that it can be shown to a home that has lost it: '
    '"holds <revision>" by the provider, "ends <contract> <given by> <ms>" by either; insert-only.';

CREATE TABLE medusa.statement_due (
    statement text COLLATE "C" PRIMARY KEY
);
COMMENT ON TABLE medusa.statement_due IS
    'What this home''s program is to sign next; "signs <revision>" is a contract signed anew.';

CREATE TABLE medusa.contract_void (
    void_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract  text COLLATE "C" NOT NULL REFERENCES medusa.contract_order,
    number    bigint NOT NULL,
    revision  text COLLATE "C" NOT NULL REFERENCES medusa.contract_revision,
    because   text NOT NULL CHECK (char_length(because) BETWEEN 1 AND 200),
    voided_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.contract_void IS
    'Agreements that count no more in this home, since both homes keep another one, or none; '
    'insert-only.';
CREATE INDEX contract_void_of_revision ON medusa.contract_void (revision, voided_at);
COMMENT ON INDEX medusa.contract_void_of_revision IS 'Whether and when a revision became void.';

CREATE TABLE medusa.partner_home (
    partner     text COLLATE "C" PRIMARY KEY,
    incarnation uuid NOT NULL,
    since       timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.partner_home IS
    'Which incarnation of its home each partner spoke of last: with another one it counts its '
    'rounds anew.';

CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.key_disowned
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.statement
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.contract_void
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.guard_voided() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_void boolean;
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        is_void := EXISTS (
            SELECT FROM medusa.contract_void AS v WHERE v.voided_at = transaction_timestamp());
    ELSE
        is_void := EXISTS (
            SELECT FROM medusa.contract_void AS v
            WHERE v.revision = OLD.revision AND v.voided_at = transaction_timestamp());
    END IF;
    IF NOT is_void THEN
        RAISE EXCEPTION 'DELETE of % is refused: the table is insert-only, but for what this '
            'transaction writes down as void', TG_TABLE_NAME USING ERRCODE = 'MDLOG';
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION medusa.guard_voided() IS
    'An agreement goes only in the transaction that writes down that it is void, and why.';

DROP TRIGGER insert_only ON medusa.contract_agreement;
DROP TRIGGER insert_only ON medusa.contract_activation;
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.contract_agreement
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.contract_activation
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER voids_alone BEFORE DELETE ON medusa.contract_agreement
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_voided();
CREATE TRIGGER voids_alone BEFORE DELETE ON medusa.contract_activation
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_voided();
CREATE TRIGGER voided BEFORE DELETE ON medusa.contract_agreement
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_voided();
CREATE TRIGGER voided BEFORE DELETE ON medusa.contract_activation
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_voided();

-- Functions that are as they were, but for what this migration brings --------------------------------

CREATE OR REPLACE FUNCTION medusa.key_of(participant text) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.public_key FROM medusa.party_key AS k
    WHERE k.participant = key_of.participant AND NOT k.is_past
    ORDER BY k.key_id DESC LIMIT 1
$$;
COMMENT ON FUNCTION medusa.key_of(text) IS 'The key of a participant that counts; NULL: none is known.';

CREATE OR REPLACE FUNCTION medusa.learn_key(
    participant text, public_key bytea, because text, replaces boolean DEFAULT false
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    known medusa.party_key;
BEGIN
    PERFORM medusa.check_names(learn_key.participant);
    IF (octet_length(learn_key.public_key) = 32) IS NOT TRUE THEN
        RAISE EXCEPTION 'the key of % has % bytes: an Ed25519 key has 32', learn_key.participant,
            coalesce(octet_length(learn_key.public_key), 0) USING ERRCODE = 'MD001';
    END IF;
    LOCK TABLE medusa.party_key IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO known FROM medusa.party_key AS k
    WHERE k.participant = learn_key.participant AND NOT k.is_past
    ORDER BY k.key_id DESC LIMIT 1;
    IF known.public_key = learn_key.public_key THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM medusa.key_disowned AS d WHERE d.public_key = learn_key.public_key) THEN
        RAISE EXCEPTION 'this key of % was disowned: draw another one', learn_key.participant
            USING ERRCODE = 'MD001';
    END IF;
    IF known.key_id IS NOT NULL AND NOT learn_key.replaces THEN
        RAISE EXCEPTION 'another key of % is known here since %: if it has a new one, let the '
            'owner call medusa_api.replace_key', learn_key.participant, date_trunc('second',
            known.learned_at) USING ERRCODE = 'MD001';
    END IF;
    IF known.key_id IS NULL AND (SELECT count(*) FROM medusa.party_key) >= 10000 THEN
        RAISE EXCEPTION '10,000 keys are known here: no more is learned' USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.party_key (participant, public_key, replaces, because)
    VALUES (learn_key.participant, learn_key.public_key, known.key_id, learn_key.because);
    PERFORM medusa.write_audit('key', learn_key.participant,
        to_jsonb(encode(known.public_key, 'hex')), to_jsonb(encode(learn_key.public_key, 'hex')));
    -- What counts is signed anew, so that who knows the new key alone can verify it.
    INSERT INTO medusa.statement_due (statement)
    SELECT 'signs ' || s.revision FROM medusa.contract_signature AS s
    JOIN medusa.contract_agreement AS a ON a.revision = s.revision
    JOIN medusa.home AS h ON h.participant = s.party
    WHERE s.party = learn_key.participant
    UNION
    SELECT s.statement FROM medusa.statement AS s JOIN medusa.home AS h ON h.participant = s.party
    WHERE s.party = learn_key.participant
    ON CONFLICT DO NOTHING;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.learn_key(text, bytea, text, boolean) IS
    'Note whose key this is; whether it is new. Another key than the known one is refused, unless '
    'it replaces it on purpose, which is the owner''s to say.';

CREATE FUNCTION medusa_api.learn_past_key(participant text, public_key text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given bytea := medusa.hex_key(learn_past_key.public_key);
BEGIN
    PERFORM medusa.check_names(learn_past_key.participant);
    LOCK TABLE medusa.party_key IN SHARE ROW EXCLUSIVE MODE;
    IF (SELECT count(*) FROM medusa.party_key) >= 10000 THEN
        RAISE EXCEPTION '10,000 keys are known here: no more is learned' USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM medusa.party_key AS k
        WHERE (k.participant, k.public_key) = (learn_past_key.participant, given))
    THEN
        RETURN false;
    END IF;
    INSERT INTO medusa.party_key (participant, public_key, because, is_past)
    VALUES (learn_past_key.participant, given, 'a past key, told by the owner', true);
    PERFORM medusa.write_audit('past key', learn_past_key.participant, NULL,
        to_jsonb(learn_past_key.public_key));
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_api.learn_past_key(text, text) IS
    'The owner says which key a participant had before: agreements under it count, nothing new '
    'does; whether it was not known.';

CREATE FUNCTION medusa_api.disown_key(participant text, public_key text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given bytea := medusa.hex_key(disown_key.public_key);
BEGIN
    IF medusa.key_of(disown_key.participant) IS NOT DISTINCT FROM given THEN
        RAISE EXCEPTION 'this is the key of % that counts: call medusa_api.replace_key before',
            disown_key.participant USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.key_disowned (public_key, participant)
    VALUES (given, disown_key.participant) ON CONFLICT DO NOTHING;
    PERFORM medusa.write_audit('disowned key', disown_key.participant,
        to_jsonb(disown_key.public_key), NULL);
END $$;
COMMENT ON FUNCTION medusa_api.disown_key(text, text) IS
    'The owner says that somebody else may have signed with a key that was replaced: what is told '
    'here under it is refused from now on.';

CREATE OR REPLACE FUNCTION medusa.ends_at(contract text) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT min(g.ends_at) FROM (
        SELECT coalesce(min(n.ends_at) FILTER (WHERE n.told_by <> n.given_by), min(n.ends_at))
            AS ends_at
        FROM medusa.contract_notice AS n
        JOIN (
            SELECT r.payer, r.provider FROM medusa.contract_agreement AS a
            JOIN medusa.contract_revision AS r ON r.revision = a.revision
            WHERE a.contract = ends_at.contract ORDER BY a.number DESC LIMIT 1
        ) AS p ON n.given_by IN (p.payer, p.provider) AND n.told_by IN (p.payer, p.provider)
        WHERE n.contract = ends_at.contract
        GROUP BY n.given_by
    ) AS g
$$;
COMMENT ON FUNCTION medusa.ends_at(text) IS
    'When a contract ends by notice: the earliest of both parties'' notices, each as the one says '
    'to whom it was given (before it has said so, as its giver says); NULL: none is given.';

CREATE OR REPLACE FUNCTION medusa.put_document(
    revision text, receiver text, about text, proposal bigint, expires_at timestamptz
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa.put_out(put_document.receiver, 'document',
        put_document.about || CASE WHEN c.signature IS NULL THEN '' ELSE '/held' END,
        jsonb_build_object(
            'document', convert_from(r.document, 'UTF8'),
            'proposal', put_document.proposal,
            'expires_at_ms', medusa.to_ms(put_document.expires_at),
            'confirmation', encode(c.signature, 'hex'),
            'signatures', coalesce((
                SELECT jsonb_object_agg(s.party, encode(s.signature, 'hex') ORDER BY s.noted_at)
                FROM medusa.contract_signature AS s WHERE s.revision = r.revision
                    AND NOT EXISTS (
                        SELECT FROM medusa.key_disowned AS d WHERE d.public_key = s.public_key)),
                '{}')))
    FROM medusa.contract_revision AS r
    LEFT JOIN LATERAL (
        SELECT s.signature FROM medusa.statement AS s
        WHERE s.statement = 'holds ' || r.revision AND s.party = r.provider
            AND NOT EXISTS (
                SELECT FROM medusa.key_disowned AS d WHERE d.public_key = s.public_key)
        ORDER BY s.noted_at DESC LIMIT 1) AS c ON true
    WHERE r.revision = put_document.revision
$$;
COMMENT ON FUNCTION medusa.put_document(text, text, text, bigint, timestamptz) IS
    'Tell a partner a revision with the signatures that are here; expires_at is its proposal''s.';

CREATE FUNCTION medusa.put_notices(contract text, receiver text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa.put_out(put_notices.receiver, 'notice',
        'notice/' || put_notices.contract || '/' || count(*),
        jsonb_build_object('contract', put_notices.contract, 'statements', jsonb_agg(
            jsonb_build_object('given_by', n.given_by, 'told_by', n.told_by,
                'ends_at_ms', n.ends_ms, 'signature', encode(n.signature, 'hex')))))
    FROM (
        SELECT DISTINCT ON (n.given_by, n.told_by, n.ends_at) n.given_by, n.told_by,
            medusa.to_ms(n.ends_at) AS ends_ms, s.signature
        FROM medusa.contract_notice AS n
        JOIN medusa.statement AS s ON s.party = n.told_by AND s.statement
            = 'ends ' || n.contract || ' ' || n.given_by || ' ' || medusa.to_ms(n.ends_at)
        WHERE n.contract = put_notices.contract AND EXISTS (
                SELECT FROM medusa.contract_agreement AS a WHERE a.contract = n.contract)
            AND NOT EXISTS (
                SELECT FROM medusa.key_disowned AS d WHERE d.public_key = s.public_key)
        ORDER BY n.given_by, n.told_by, n.ends_at, s.noted_at DESC LIMIT 16
    ) AS n HAVING count(*) > 0
$$;
COMMENT ON FUNCTION medusa.put_notices(text, text) IS
    'Tell a partner all that is known of when an agreed contract ends, with who has signed it.';

CREATE OR REPLACE FUNCTION medusa.tell_agreements(contract text, receiver text, from_number bigint)
RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa.put_document(a.revision, tell_agreements.receiver, 'agreement/' || a.revision,
        NULL, NULL)
    FROM (
        SELECT a.revision, a.number FROM medusa.contract_agreement AS a
        WHERE a.contract = tell_agreements.contract
            AND a.number >= tell_agreements.from_number
        ORDER BY a.number LIMIT 32
    ) AS a ORDER BY a.number;
    SELECT medusa.put_notices(tell_agreements.contract, tell_agreements.receiver);
$$;
COMMENT ON FUNCTION medusa.tell_agreements(text, text, bigint) IS
    'Tell a partner again what was agreed from a number on, and when it ends: it does not have it, '
    'or not yet.';

CREATE OR REPLACE FUNCTION medusa.agree(revision text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms    medusa.contract_revision;
    proposal medusa.contract_proposal;
    here     text := medusa.here();
BEGIN
    SELECT * INTO terms FROM medusa.contract_revision AS r WHERE r.revision = agree.revision;
    INSERT INTO medusa.contract_agreement (revision, contract, number)
    VALUES (terms.revision, terms.contract, terms.number);
    PERFORM medusa.claim_subjects(terms.contract);
    PERFORM medusa.write_audit('agreed', terms.contract, to_jsonb(terms.supersedes),
        to_jsonb(terms.revision));
    FOR proposal IN SELECT * FROM medusa.contract_proposal AS p
        WHERE p.contract = terms.contract AND p.state = 'open' ORDER BY p.proposal_id
    LOOP
        PERFORM medusa.end_proposal(proposal,
            CASE proposal.revision WHEN terms.revision THEN 'agreed' ELSE 'superseded' END);
    END LOOP;
    IF NOT EXISTS (
        SELECT FROM medusa.statement AS s
        WHERE s.statement = 'holds ' || terms.revision AND s.party = terms.provider)
    THEN
        IF here = terms.payer THEN
            PERFORM medusa.put_document(terms.revision, terms.provider,
                'agreement/' || terms.revision, NULL, NULL);
        ELSE
            PERFORM medusa.owe_statement('holds ' || terms.revision);
        END IF;
    END IF;
    PERFORM medusa.hear_notices(terms.contract);
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.agree(text) IS
    'Both signatures of a revision are here: it is agreed, all else that was proposed is past. The '
    'payer tells of it, the provider states that it holds it.';

CREATE FUNCTION medusa.owe_statement(statement text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.statement_due (statement) VALUES (owe_statement.statement)
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa.owe_statement(text) IS
    'This home''s program is to sign a statement, which it then tells the partner.';

CREATE FUNCTION medusa.note_statement(
    statement text, party text, signature bytea, public_key bytea
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.statement (statement, party, signature, public_key)
    VALUES (note_statement.statement, note_statement.party, note_statement.signature,
        note_statement.public_key)
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa.note_statement(text, text, bytea, bytea) IS
    'Keep a statement whose signature was verified with this key.';

CREATE FUNCTION medusa.state(statement text, signature bytea, public_key bytea) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    here    text := medusa.here();
    what    text := split_part(state.statement, ' ', 1);
    about   text := split_part(state.statement, ' ', 2);
    agreed  medusa.contract_revision;
BEGIN
    IF state.public_key IS DISTINCT FROM medusa.key_of(here) THEN
        RAISE EXCEPTION 'the key of % is another one than it signed with: let the owner call '
            'medusa_api.replace_key', here USING ERRCODE = 'MD001';
    END IF;
    DELETE FROM medusa.statement_due AS d WHERE d.statement = state.statement;
    IF NOT FOUND THEN
        RETURN false;  -- stated meanwhile
    END IF;
    IF what = 'signs' THEN
        PERFORM medusa.note_signature(about, here, state.signature, state.public_key);
        RETURN true;
    END IF;
    PERFORM medusa.note_statement(state.statement, here, state.signature, state.public_key);
    IF what = 'holds' THEN
        PERFORM medusa.put_document(r.revision, r.payer, 'agreement/' || r.revision, NULL, NULL)
        FROM medusa.contract_agreement AS a
        JOIN medusa.contract_revision AS r ON r.revision = a.revision
        WHERE a.revision = about;
    ELSE
        agreed := medusa.agreed_revision(about);
        IF agreed.revision IS NOT NULL THEN
            PERFORM medusa.put_notices(about,
                CASE here WHEN agreed.payer THEN agreed.provider ELSE agreed.payer END);
        END IF;
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.state(text, bytea, bytea) IS
    'This home has signed what it was to state, and tells it the partner; whether it was to.';

DROP FUNCTION medusa.note_signature(text, text, bytea);
CREATE FUNCTION medusa.note_signature(
    revision text, party text, signature bytea, public_key bytea
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.contract_signature (revision, party, signature, public_key)
    VALUES (note_signature.revision, note_signature.party, note_signature.signature,
        note_signature.public_key)
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa.note_signature(text, text, bytea, bytea) IS
    'Keep a signature that was verified with this key.';

CREATE OR REPLACE FUNCTION medusa.sign_contract(revision text, signature bytea, public_key bytea)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms medusa.contract_revision;
    own   medusa.contract_proposal;
    here  text := medusa.here();
BEGIN
    SELECT * INTO terms FROM medusa.contract_revision AS r WHERE r.revision = sign_contract.revision;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'revision % is not known here: propose it first', left(revision, 80)
            USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.lock_contract(terms.contract);
    SELECT * INTO own FROM medusa.contract_proposal AS p
    WHERE p.revision = terms.revision AND p.proposed_by = here AND p.state = 'open'
        AND p.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;  -- taken back meanwhile, or signed already
    END IF;
    IF sign_contract.public_key IS DISTINCT FROM medusa.key_of(here) THEN
        RAISE EXCEPTION 'the key of % is another one than it signed with: let the owner call '
            'medusa_api.replace_key', here USING ERRCODE = 'MD001';
    END IF;
    IF here = terms.payer AND NOT (
        EXISTS (
            SELECT FROM medusa.contract_proposal AS p
            WHERE p.revision = terms.revision AND p.proposed_by = terms.provider
                AND p.state = 'open' AND p.expires_at > clock_timestamp())
        AND EXISTS (
            SELECT FROM medusa.contract_signature AS s
            WHERE s.revision = terms.revision AND s.party = terms.provider)
        AND medusa.ends_at(terms.contract) IS NULL
        AND terms.number = 1 + coalesce((medusa.agreed_revision(terms.contract)).number, 0))
    THEN
        RETURN false;  -- the provider has not signed it, or took it back
    END IF;
    INSERT INTO medusa.contract_signature (revision, party, signature, public_key)
    VALUES (terms.revision, here, sign_contract.signature, sign_contract.public_key)
    ON CONFLICT DO NOTHING;
    -- The payer's may be here from an agreement that became void.
    IF NOT FOUND AND here = terms.provider THEN
        RETURN false;
    END IF;
    PERFORM medusa.write_audit('signed', terms.contract, NULL, to_jsonb(terms.revision));
    IF here = terms.payer THEN
        PERFORM medusa.agree(terms.revision);
    ELSE
        PERFORM medusa.put_document(terms.revision, terms.payer, 'proposal/' || own.proposal_id,
            own.proposal_id, own.expires_at);
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.sign_contract(text, bytea, bytea) IS
    'This home signs what it proposes: the provider as an offer, the payer last of all, which '
    'makes it agreed. Whether there was something to sign.';

CREATE FUNCTION medusa.void_agreements(contract text, from_number bigint, because text)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    proposal medusa.contract_proposal;
BEGIN
    INSERT INTO medusa.contract_void (contract, number, revision, because, voided_at)
    SELECT a.contract, a.number, a.revision, void_agreements.because, transaction_timestamp()
    FROM medusa.contract_agreement AS a
    WHERE a.contract = void_agreements.contract AND a.number >= from_number
    ORDER BY a.number;
    DELETE FROM medusa.contract_activation AS v
    WHERE v.contract = void_agreements.contract AND v.number >= from_number;
    DELETE FROM medusa.contract_agreement AS a
    WHERE a.contract = void_agreements.contract AND a.number >= from_number;
    FOR proposal IN SELECT p.* FROM medusa.contract_proposal AS p
        JOIN medusa.contract_revision AS r ON r.revision = p.revision
        WHERE p.contract = void_agreements.contract AND p.state = 'open' AND r.number > from_number
        ORDER BY p.proposal_id
    LOOP
        PERFORM medusa.end_proposal(proposal, 'superseded');
    END LOOP;
    PERFORM medusa.claim_subjects(void_agreements.contract);
    PERFORM medusa.write_audit('void', void_agreements.contract, to_jsonb(from_number),
        to_jsonb(void_agreements.because));
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.void_agreements(text, bigint, text) IS
    'What is agreed here from a number on counts no more, and why: both homes keep another '
    'revision, or none.';

CREATE FUNCTION medusa.held_agreement(document bytea, envelope_id bigint) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'revision', held.revision,
        'before', (
            SELECT a.revision FROM medusa.contract_agreement AS a
            WHERE a.contract = told.contract AND a.number = told.number - 1),
        'counts', coalesce(held.provider = h.participant OR EXISTS (
            SELECT FROM medusa.statement AS s
            WHERE s.statement = 'holds ' || held.revision AND s.party = held.provider), false),
        'is_bound', told.provider <> h.participant
            OR NOT EXISTS (
                SELECT FROM medusa.contract_proposal AS p
                WHERE p.revision = told.revision AND p.proposed_by = h.participant)
            OR EXISTS (
                SELECT FROM medusa.contract_proposal AS p
                JOIN medusa.inbox AS i ON i.envelope_id = held_agreement.envelope_id
                WHERE p.revision = told.revision AND p.proposed_by = h.participant
                    AND p.let_go_at IS NULL AND p.expires_at + interval '7 days' > i.received_at))
    FROM medusa.home AS h
    CROSS JOIN medusa.terms_of(held_agreement.document) AS told
    LEFT JOIN LATERAL (
        SELECT r.revision, r.provider FROM medusa.contract_agreement AS a
        JOIN medusa.contract_revision AS r ON r.revision = a.revision
        WHERE a.contract = told.contract AND a.number = told.number) AS held ON true
$$;
COMMENT ON FUNCTION medusa.held_agreement(bytea, bigint) IS
    'What is held here where a document that an envelope brings belongs: judged by '
    'medusa_core/market/converging.py. Whether it still binds counts from when it came.';

DROP FUNCTION medusa.take_document(bigint, bytea, bytea, bytea, bigint, bigint);
CREATE FUNCTION medusa.take_document(
    envelope_id bigint, document bytea, signatures jsonb, proposal_told bigint,
    expires_at_ms bigint, verdict text, judged jsonb
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope  medusa.inbox;
    terms     medusa.contract_revision := medusa.terms_of(document);
    agreed    medusa.contract_revision;
    proposal  medusa.contract_proposal;
    here      text := medusa.here();
    is_signed boolean := signatures ? 'payer' AND signatures ? 'provider';
BEGIN
    -- 1 Is it between the sender and this home?
    PERFORM medusa.check_terms(terms);
    PERFORM medusa.lock_contract(terms.contract);
    envelope := medusa.end_envelope(envelope_id);
    IF NOT (here IN (terms.payer, terms.provider) AND envelope.sender IN (terms.payer, terms.provider)
        AND envelope.sender <> here)
    THEN
        RAISE EXCEPTION 'contract % is one of % and %: % sends it to %, who has no part in it',
            terms.contract, terms.payer, terms.provider, envelope.sender, here
            USING ERRCODE = 'MD001';
    END IF;
    agreed := medusa.agreed_revision(terms.contract);
    IF agreed.revision IS NOT NULL AND (NOT here IN (agreed.payer, agreed.provider)
        OR NOT envelope.sender IN (agreed.payer, agreed.provider)
        OR NOT is_signed AND (agreed.kind, agreed.payer, agreed.provider)
            IS DISTINCT FROM (terms.kind, terms.payer, terms.provider))
    THEN
        RAISE EXCEPTION 'contract % is one of kind % between % (payer) and % (provider) here',
            terms.contract, agreed.kind, agreed.payer, agreed.provider USING ERRCODE = 'MD001';
    END IF;

    -- 2 What is agreed already is told again to who does not have it.
    IF EXISTS (SELECT FROM medusa.contract_agreement AS a WHERE a.revision = terms.revision) THEN
        IF signatures ? 'confirmation' THEN
            PERFORM medusa.note_statement('holds ' || terms.revision, terms.provider,
                decode(signatures->'confirmation'->>'signature', 'hex'),
                decode(signatures->'confirmation'->>'public_key', 'hex'));
        END IF;
        IF NOT is_signed OR here = terms.provider AND NOT signatures ? 'confirmation' THEN
            PERFORM medusa.tell_agreements(terms.contract, envelope.sender, terms.number);
        END IF;
        RETURN 'agreed before';
    END IF;

    -- 3 Both have signed: what becomes of it was judged from what is held here.
    IF is_signed THEN
        IF medusa.held_agreement(document, envelope_id) IS DISTINCT FROM judged THEN
            RAISE EXCEPTION 'contract % was agreed otherwise meanwhile: look again', terms.contract
                USING ERRCODE = 'MD002';
        END IF;
        IF verdict = 'earlier' THEN
            PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || terms.contract,
                jsonb_build_object('contract', terms.contract, 'number',
                    least(terms.number - 1, coalesce(agreed.number, 0) + 1)));
            RETURN 'what comes before is asked for';
        ELSIF verdict = 'keep' THEN
            PERFORM medusa.tell_agreements(terms.contract, envelope.sender, terms.number);
            RETURN 'agreed otherwise';
        ELSIF verdict = 'late' THEN
            PERFORM medusa.put_out(envelope.sender, 'refusal', 'refusal/' || terms.revision,
                jsonb_build_object('contract', terms.contract, 'number', terms.number,
                    'revision', terms.revision, 'newest', coalesce(agreed.number, 0)));
            PERFORM medusa.write_audit('refused', terms.contract, NULL, to_jsonb(terms.revision));
            RETURN 'it comes too late';
        ELSIF (verdict IN ('agree', 'replace')) IS NOT TRUE THEN
            RAISE EXCEPTION 'an agreement on contract % comes without a verdict', terms.contract
                USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;
        PERFORM medusa.note_signature(terms.revision,
            CASE s.key WHEN 'payer' THEN terms.payer ELSE terms.provider END,
            decode(s.value->>'signature', 'hex'), decode(s.value->>'public_key', 'hex'))
        FROM jsonb_each(signatures) AS s WHERE s.key <> 'confirmation';
        IF signatures ? 'confirmation' THEN
            PERFORM medusa.note_statement('holds ' || terms.revision, terms.provider,
                decode(signatures->'confirmation'->>'signature', 'hex'),
                decode(signatures->'confirmation'->>'public_key', 'hex'));
        END IF;
        IF verdict = 'replace' THEN
            PERFORM medusa.void_agreements(terms.contract, terms.number,
                'both homes keep ' || terms.revision || ' instead');
        END IF;
        PERFORM medusa.agree(terms.revision);
        RETURN 'agreed';
    END IF;

    -- 4 A proposal of what is past, or of what builds on what is not here.
    IF terms.number <= agreed.number THEN
        PERFORM medusa.tell_agreements(terms.contract, envelope.sender, terms.number);
        RETURN 'agreed otherwise';
    END IF;
    IF (terms.number, terms.supersedes) IS DISTINCT FROM
        (coalesce(agreed.number, 0) + 1, agreed.revision)
    THEN
        PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || terms.contract,
            jsonb_build_object('contract', terms.contract, 'number',
                least(terms.number - 1, coalesce(agreed.number, 0) + 1)));
        RETURN 'what comes before is asked for';
    END IF;

    -- 5 A proposal; the provider's is signed, the payer signs last.
    INSERT INTO medusa.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;
    IF envelope.sender = terms.provider AND NOT signatures ? 'provider' THEN
        RAISE EXCEPTION 'the provider proposes contract % without its signature: let it sign',
            terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF medusa.ends_at(terms.contract) IS NOT NULL OR upper(terms.validity) <= clock_timestamp() THEN
        RAISE EXCEPTION 'contract % has ended or ends by notice: propose another one',
            terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF proposal_told IS NULL THEN
        RAISE EXCEPTION 'a proposal has a number in the home that makes it' USING ERRCODE = 'MD001';
    END IF;
    IF (expires_at_ms BETWEEN 0 AND medusa.to_ms(clock_timestamp()) + 32 * 86400000::bigint)
        IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a proposal lasts up to 31 days' USING ERRCODE = 'MD001';
    END IF;
    IF medusa.at_ms(expires_at_ms) <= clock_timestamp() THEN
        RETURN 'expired on the way';
    END IF;
    IF (SELECT count(*) FROM medusa.contract_proposal AS p
        WHERE p.state = 'open' AND p.proposed_by = envelope.sender) >= 1000
    THEN
        RAISE EXCEPTION '% has 1,000 open proposals here: it may propose no more', envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    IF signatures ? 'provider' AND envelope.sender = terms.provider THEN
        PERFORM medusa.note_signature(terms.revision, terms.provider,
            decode(signatures->'provider'->>'signature', 'hex'),
            decode(signatures->'provider'->>'public_key', 'hex'));
    END IF;
    SELECT * INTO proposal FROM medusa.contract_proposal AS p
    WHERE p.contract = terms.contract AND p.proposed_by = envelope.sender AND p.state = 'open';
    IF (proposal.revision, proposal.told_as) = (terms.revision, proposal_told) THEN
        RETURN 'proposed before';
    ELSIF FOUND THEN
        PERFORM medusa.end_proposal(proposal, 'superseded');
    END IF;
    INSERT INTO medusa.contract_proposal (contract, revision, proposed_by, because, expires_at,
        told_as)
    VALUES (terms.contract, terms.revision, envelope.sender, 'told by the partner',
        medusa.at_ms(expires_at_ms), proposal_told);
    PERFORM medusa.write_audit('told', terms.contract, NULL,
        convert_from(terms.document, 'UTF8')::jsonb || jsonb_build_object('revision', terms.revision));
    PERFORM pg_notify('medusa_progress', '');
    RETURN 'proposed';
END $$;
COMMENT ON FUNCTION medusa.take_document(bigint, bytea, jsonb, bigint, bigint, text, jsonb) IS
    'Bring what a partner''s envelope says about a contract: a proposal, or both signatures, of '
    'which a verdict says what becomes. The envelope and the signatures given (payer, provider, '
    'confirmation, each with its key) have been verified. What came of it.';

CREATE FUNCTION medusa.take_refusal(
    envelope_id bigint, contract text, number bigint, revision text, newest bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
    terms    medusa.contract_revision;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    SELECT r.* INTO terms FROM medusa.contract_agreement AS a
    JOIN medusa.contract_revision AS r ON r.revision = a.revision
    WHERE (a.contract, a.number, a.revision)
        = (take_refusal.contract, take_refusal.number, take_refusal.revision);
    IF NOT FOUND THEN
        RETURN 'it is not held here';
    END IF;
    IF terms.provider <> envelope.sender THEN
        RAISE EXCEPTION '% refuses number % of contract %, of which it is not the provider',
            envelope.sender, terms.number, terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM medusa.statement AS s
        WHERE s.statement = 'holds ' || terms.revision AND s.party = terms.provider)
    THEN
        PERFORM medusa.tell_agreements(terms.contract, envelope.sender, terms.number);
        RETURN 'it has said that it holds it';
    END IF;
    PERFORM medusa.void_agreements(terms.contract, terms.number,
        envelope.sender || ' refuses it: it came too late');
    IF newest >= terms.number THEN
        PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || terms.contract,
            jsonb_build_object('contract', terms.contract, 'number', terms.number));
    END IF;
    RETURN 'void';
END $$;
COMMENT ON FUNCTION medusa.take_refusal(bigint, text, bigint, text, bigint) IS
    'The provider does not take what was agreed here: it is void, unless the provider has said once '
    'that it holds it, which it is shown.';

CREATE OR REPLACE FUNCTION medusa.take_want(envelope_id bigint, contract text, number bigint)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    PERFORM medusa.contract_with(contract, envelope.sender);
    PERFORM medusa.tell_agreements(contract, envelope.sender, take_want.number);
    RETURN 'told again';
END $$;
COMMENT ON FUNCTION medusa.take_want(bigint, text, bigint) IS
    'A partner lacks what was agreed from a number on: it is told again.';

DROP FUNCTION medusa.note_notice(text, text, text, timestamptz);
CREATE FUNCTION medusa.note_notice(
    contract text, given_by text, told_by text, ends_at timestamptz, noted_at timestamptz
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before   timestamptz := medusa.ends_at(contract);
    proposal medusa.contract_proposal;
BEGIN
    INSERT INTO medusa.contract_notice (contract, given_by, told_by, ends_at, noted_at)
    VALUES (note_notice.contract, note_notice.given_by, note_notice.told_by, note_notice.ends_at,
        note_notice.noted_at);
    IF medusa.ends_at(contract) IS NOT DISTINCT FROM before THEN
        RETURN;
    END IF;
    FOR proposal IN SELECT * FROM medusa.contract_proposal AS p
        WHERE p.contract = note_notice.contract AND p.state = 'open' ORDER BY p.proposal_id
    LOOP
        PERFORM medusa.end_proposal(proposal, 'withdrawn');
    END LOOP;
    PERFORM medusa.claim_subjects(contract);
    PERFORM medusa.write_audit('notice', contract, to_jsonb(before),
        jsonb_build_object('given_by', note_notice.given_by,
            'ends_at', medusa.ends_at(note_notice.contract)));
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.note_notice(text, text, text, timestamptz, timestamptz) IS
    'Somebody has said when a contract ends; if that changes it, what was proposed for it is past.';

CREATE FUNCTION medusa.hear_notices(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    agreed medusa.contract_revision := medusa.agreed_revision(contract);
    here   text := medusa.here();
    other  text := CASE here WHEN agreed.payer THEN agreed.provider ELSE agreed.payer END;
    given  record;
    ends   bigint;
BEGIN
    SELECT min(n.ends_at) AS ends_at, min(n.noted_at) AS noted_at INTO given
    FROM medusa.contract_notice AS n
    WHERE n.contract = hear_notices.contract AND n.given_by = other AND n.told_by = other
        AND agreed.revision IS NOT NULL
        AND NOT EXISTS (
            SELECT FROM medusa.contract_notice AS h
            WHERE h.contract = n.contract AND h.given_by = other AND h.told_by = here);
    IF given.ends_at IS NOT NULL THEN
        ends := greatest(medusa.to_ms(given.ends_at),
            medusa.to_ms(given.noted_at) + agreed.notice_ms);
        PERFORM medusa.note_notice(contract, other, here, medusa.at_ms(ends), given.noted_at);
        PERFORM medusa.owe_statement('ends ' || contract || ' ' || other || ' ' || ends);
    END IF;
END $$;
COMMENT ON FUNCTION medusa.hear_notices(text) IS
    'Say once when a partner''s notice ends, which runs in full from when it came.';

CREATE OR REPLACE FUNCTION medusa.give_notice(contract text) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    agreed medusa.contract_revision;
    here   text := medusa.here();
    ends   timestamptz;
    now_is timestamptz;
BEGIN
    PERFORM medusa.lock_contract(contract);
    now_is := clock_timestamp();
    agreed := medusa.agreed_revision(contract);
    IF agreed.revision IS NULL THEN
        RAISE EXCEPTION 'contract % is not agreed: withdraw what is proposed', contract
            USING ERRCODE = 'MD001';
    END IF;
    ends := medusa.ends_at(contract);
    IF ends <= medusa.at_ms(medusa.to_ms(now_is) + agreed.notice_ms) OR EXISTS (
        SELECT FROM medusa.contract_notice AS n
        WHERE n.contract = give_notice.contract AND n.given_by = here)
    THEN
        RAISE EXCEPTION 'contract % ends at % by notice already: wait for that', contract, ends
            USING ERRCODE = 'MD001';
    END IF;
    IF agreed.notice_ms > medusa.to_ms(upper(agreed.validity)) - medusa.to_ms(now_is)
    THEN
        RAISE EXCEPTION 'contract % ends at %, before its notice of % ms has run: wait for that',
            contract, upper(agreed.validity), agreed.notice_ms USING ERRCODE = 'MD001';
    END IF;
    ends := medusa.at_ms(medusa.to_ms(now_is) + agreed.notice_ms);
    PERFORM medusa.note_notice(contract, here, here, ends, now_is);
    PERFORM medusa.owe_statement(
        'ends ' || contract || ' ' || here || ' ' || medusa.to_ms(ends));
    RETURN ends;
END $$;
COMMENT ON FUNCTION medusa.give_notice(text) IS
    'End a contract: its notice from now on, or from when the partner hears of it, whichever is '
    'later. When it ends, as far as is known.';

DROP FUNCTION medusa.take_notice(bigint, text, text, bigint);
CREATE FUNCTION medusa.take_notice(envelope_id bigint, contract text, statements jsonb)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
    agreed   medusa.contract_revision;
    here     text := medusa.here();
    told     record;
    given    timestamptz;
    arrived  timestamptz;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    agreed := medusa.agreed_revision(contract);
    IF agreed.revision IS NOT NULL
        AND (envelope.sender IN (agreed.payer, agreed.provider)) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'there is no contract % with % here', contract, envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    -- The giver's come first: what was heard is of what was given.
    FOR told IN SELECT s.*, medusa.at_ms(s.ends_at_ms) AS ends_at
        FROM jsonb_to_recordset(statements) AS s (given_by text, told_by text, ends_at_ms bigint,
            signature text, public_key text)
        ORDER BY s.told_by <> s.given_by, s.ends_at_ms
    LOOP
        IF NOT (told.given_by IN (here, envelope.sender) AND told.told_by IN (here, envelope.sender))
        THEN
            RAISE EXCEPTION 'notice of contract % by %, who has no part in it', contract,
                CASE WHEN told.given_by IN (here, envelope.sender) THEN told.told_by
                    ELSE told.given_by END USING ERRCODE = 'MD001';
        END IF;
        CONTINUE WHEN EXISTS (
            SELECT FROM medusa.contract_notice AS n
            WHERE (n.contract, n.given_by, n.told_by, n.ends_at)
                = (take_notice.contract, told.given_by, told.told_by, told.ends_at));
        IF agreed.revision IS NULL AND (
            SELECT count(*) FROM medusa.contract_notice AS n
            WHERE envelope.sender IN (n.given_by, n.told_by) AND NOT EXISTS (
                SELECT FROM medusa.contract_agreement AS a WHERE a.contract = n.contract)) >= 64
        THEN
            RAISE EXCEPTION '64 notices of % wait for their contracts here: no more is taken',
                envelope.sender USING ERRCODE = 'MD001';
        END IF;
        IF agreed.revision IS NOT NULL AND (
            SELECT count(*) FROM medusa.contract_notice AS n
            WHERE n.contract = take_notice.contract AND n.told_by = told.told_by) >= 16
        THEN
            RAISE EXCEPTION '% has said 16 times when contract % ends: no more is taken',
                told.told_by, contract USING ERRCODE = 'MD001';
        END IF;
        IF told.given_by = here AND told.told_by = envelope.sender THEN
            SELECT min(n.ends_at) INTO given FROM medusa.contract_notice AS n
            WHERE n.contract = take_notice.contract AND n.given_by = here AND n.told_by = here;
            IF given IS NULL THEN
                RAISE EXCEPTION 'nobody has given notice of contract % as % says', contract,
                    envelope.sender USING ERRCODE = 'MD001';
            END IF;
            SELECT coalesce(min(o.acknowledged_at), envelope.received_at) INTO arrived
            FROM medusa.outbox AS o
            WHERE o.receiver = envelope.sender AND o.kind = 'notice'
                AND o.about LIKE 'notice/' || replace(take_notice.contract, '_', '\_') || '/%'
                AND o.put_at >= given - agreed.notice_ms * interval '1 ms';
            -- Its clock may go an hour before this home's.
            IF told.ends_at > greatest(given, arrived + agreed.notice_ms * interval '1 ms'
                + interval '1 hour')
            THEN
                RAISE EXCEPTION '% says that the notice of contract % ends at %, later than it has '
                    'to: it came at %', envelope.sender, contract, told.ends_at, arrived
                    USING ERRCODE = 'MD001';
            END IF;
        END IF;
        PERFORM medusa.note_statement('ends ' || contract || ' ' || told.given_by || ' '
            || told.ends_at_ms, told.told_by, decode(told.signature, 'hex'),
            decode(told.public_key, 'hex'));
        PERFORM medusa.note_notice(contract, told.given_by, told.told_by, told.ends_at,
            envelope.received_at);
    END LOOP;
    IF agreed.revision IS NULL THEN
        PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || contract,
            jsonb_build_object('contract', contract, 'number', 1));
        RETURN 'kept until what it ends has come';
    END IF;
    PERFORM medusa.hear_notices(contract);
    -- A home that has forgotten what it said is shown it.
    IF EXISTS (
        SELECT FROM medusa.contract_notice AS n
        JOIN medusa.statement AS w ON w.party = n.told_by AND w.statement
            = 'ends ' || n.contract || ' ' || n.given_by || ' ' || medusa.to_ms(n.ends_at)
        WHERE n.contract = take_notice.contract AND n.told_by = envelope.sender
            AND NOT EXISTS (
                SELECT FROM jsonb_to_recordset(statements)
                    AS s (given_by text, told_by text, ends_at_ms bigint)
                WHERE (s.given_by, s.told_by, medusa.at_ms(s.ends_at_ms))
                    = (n.given_by, n.told_by, n.ends_at)))
    THEN
        PERFORM medusa.put_notices(contract, envelope.sender);
    END IF;
    RETURN 'noted';
END $$;
COMMENT ON FUNCTION medusa.take_notice(bigint, text, jsonb) IS
    'A partner says when a contract ends, by whose notice, and who has said so: signatures have been '
    'verified. Kept, up to 64 of a sender, where the contract has not come yet.';

-- What two homes hold of each other is compared now and then ------------------------------------------

CREATE FUNCTION medusa.holdings_with(partner text)
RETURNS TABLE (contract text, number bigint, revision text, ends_at_ms bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.contract, a.number, a.revision, medusa.to_ms(medusa.ends_at(a.contract))
    FROM (
        SELECT DISTINCT ON (a.contract) a.contract, a.number, a.revision
        FROM medusa.contract_agreement AS a ORDER BY a.contract, a.number DESC
    ) AS a
    JOIN medusa.contract_revision AS r ON r.revision = a.revision
    WHERE holdings_with.partner IN (r.payer, r.provider)
        AND medusa.here() <> holdings_with.partner
    ORDER BY a.contract
$$;
COMMENT ON FUNCTION medusa.holdings_with(text) IS
    'What is agreed with a partner, contract by contract, and when each ends by notice.';

CREATE FUNCTION medusa.standing_with(partner text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT encode(sha256(convert_to(coalesce(string_agg(concat_ws(' ', h.contract, h.number,
        h.revision, h.ends_at_ms), E'\n' ORDER BY h.contract COLLATE "C"), ''), 'UTF8')), 'hex')
    FROM medusa.holdings_with(standing_with.partner) AS h
$$;
COMMENT ON FUNCTION medusa.standing_with(text) IS
    'One hash of all that is agreed with a partner: equal where both hold the same.';

CREATE FUNCTION medusa.tell_standings() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    partner text;
    told    integer := 0;
BEGIN
    FOR partner IN
        SELECT DISTINCT p.party FROM medusa.contract_revision AS r
        JOIN medusa.contract_agreement AS a ON a.revision = r.revision,
            LATERAL (VALUES (r.payer), (r.provider)) AS p (party)
        WHERE p.party <> medusa.here() ORDER BY 1
    LOOP
        PERFORM medusa.put_out(partner, 'standing', 'standing', jsonb_build_object(
            'incarnation', h.incarnation, 'digest', medusa.standing_with(partner)))
        FROM medusa.home AS h;
        told := told + 1;
    END LOOP;
    RETURN told;
END $$;
COMMENT ON FUNCTION medusa.tell_standings() IS
    'Tell each partner one hash of what is agreed with it; how many.';

CREATE FUNCTION medusa.take_standing(envelope_id bigint, incarnation uuid, digest text)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
    was      uuid;
BEGIN
    envelope := medusa.end_envelope(envelope_id);
    SELECT p.incarnation INTO was FROM medusa.partner_home AS p
    WHERE p.partner = envelope.sender FOR UPDATE;
    IF was IS DISTINCT FROM take_standing.incarnation THEN
        INSERT INTO medusa.partner_home AS p (partner, incarnation)
        VALUES (envelope.sender, take_standing.incarnation)
        ON CONFLICT (partner) DO UPDATE SET incarnation = EXCLUDED.incarnation,
            since = clock_timestamp();
        PERFORM medusa.write_audit('incarnation', envelope.sender, to_jsonb(was),
            to_jsonb(take_standing.incarnation));
    END IF;
    IF medusa.standing_with(envelope.sender) = take_standing.digest THEN
        RETURN 'the same';
    END IF;
    PERFORM medusa.put_out(envelope.sender, 'holdings', 'holdings/' || page.n, jsonb_build_object(
        'after', page.after, 'until', page.until, 'holdings', page.holdings))
    FROM (
        SELECT paged.n, lag(max(paged.contract)) OVER (ORDER BY paged.n) AS after,
            CASE WHEN lead(paged.n) OVER (ORDER BY paged.n) IS NOT NULL THEN max(paged.contract) END
                AS until,
            coalesce(jsonb_agg(jsonb_build_object('contract', paged.contract, 'number',
                paged.number, 'revision', paged.revision, 'ends_at_ms', paged.ends_at_ms)
                ORDER BY paged.contract) FILTER (WHERE paged.contract IS NOT NULL), '[]') AS holdings
        FROM (
            SELECT coalesce((row_number() OVER (ORDER BY h.contract COLLATE "C") - 1) / 256, 0) AS n,
                h.contract COLLATE "C" AS contract, h.number, h.revision, h.ends_at_ms
            FROM (SELECT 1) AS one LEFT JOIN medusa.holdings_with(envelope.sender) AS h ON true
        ) AS paged
        GROUP BY paged.n
    ) AS page;
    RETURN 'what is held here is told';
END $$;
COMMENT ON FUNCTION medusa.take_standing(bigint, uuid, text) IS
    'A partner tells one hash of what is agreed: if it is another one than here, it is told, 256 '
    'contracts at a time, what this home holds.';

CREATE FUNCTION medusa.take_holdings(envelope_id bigint, differing jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox := medusa.end_envelope(envelope_id);
    here     text := medusa.here();
    agreed   medusa.contract_revision;
    one      record;
    asked    bigint;
    told     bigint;
    more     bigint;
BEGIN
    -- No more than a partner takes of a sender within an hour: the next comparison goes on.
    SELECT count(*) FILTER (WHERE o.kind = 'want'), count(*) FILTER (WHERE o.kind = 'document')
    INTO asked, told FROM medusa.outbox AS o
    WHERE o.receiver = envelope.sender AND o.kind IN ('want', 'document')
        AND (o.acknowledged_at IS NULL OR o.put_at > clock_timestamp() - interval '1 hour');
    FOR one IN SELECT d.* FROM jsonb_to_recordset(differing)
        AS d (contract text, tells_from bigint, wants_from bigint, tells_end boolean)
        ORDER BY d.contract
    LOOP
        PERFORM medusa.check_names(one.contract);
        agreed := medusa.agreed_revision(one.contract);
        CONTINUE WHEN one.wants_from IS NULL AND (envelope.sender <> here
            AND envelope.sender IN (agreed.payer, agreed.provider)) IS NOT TRUE;
        IF one.tells_from IS NOT NULL THEN
            more := least(agreed.number - one.tells_from + 1, 32);
            CONTINUE WHEN told + more > 4096;
            told := told + more;
            PERFORM medusa.tell_agreements(one.contract, envelope.sender, one.tells_from);
        ELSIF one.tells_end THEN
            PERFORM medusa.put_notices(one.contract, envelope.sender);
        END IF;
        IF one.wants_from IS NOT NULL AND asked < 1024 THEN
            asked := asked + 1;
            PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || one.contract,
                jsonb_build_object('contract', one.contract, 'number', one.wants_from));
        END IF;
    END LOOP;
    RETURN 'compared';
END $$;
COMMENT ON FUNCTION medusa.take_holdings(bigint, jsonb) IS
    'A partner tells what it holds: what it lacks is told, what is lacking here is asked for, as '
    'medusa_core/market/converging.py finds it; both no more than it would take within an hour.';

-- Fragments are named with their network where that is needed; promises contradict themselves nowhere ---

CREATE FUNCTION medusa.is_fragment(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT name ~ '^[a-z][a-z0-9_]{0,62}([.][a-z][a-z0-9_]{0,62})?$' $$;
COMMENT ON FUNCTION medusa.is_fragment(text) IS
    'Whether a text can name a fragment in a contract: FRAGMENT or NETWORK.FRAGMENT.';

CREATE FUNCTION medusa.is_fragment_of(name text, part text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT name = part OR split_part(name, '.', 2) = part $$;
COMMENT ON FUNCTION medusa.is_fragment_of(text, text) IS
    'Whether a contract may mean the same by two names of a fragment: NETWORK.FRAGMENT is also '
    'what FRAGMENT names.';

CREATE FUNCTION medusa.check_fragments(names text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY names LOOP
        IF medusa.is_fragment(name) IS NOT TRUE THEN
            RAISE EXCEPTION '% is not a name of a fragment: write FRAGMENT or NETWORK.FRAGMENT, '
                'each beginning with a lower-case letter, with lower-case letters, digits and _',
                coalesce(quote_literal(left(name, 150)), 'NULL') USING ERRCODE = 'MD001';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.check_fragments(text[]) IS
    'Refuse what names no fragment; so does NULL.';

CREATE OR REPLACE FUNCTION medusa.check_terms(terms medusa.contract_revision) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    strange text;
BEGIN
    PERFORM medusa.check_names(terms.contract, terms.payer, terms.provider);
    PERFORM medusa.check_word('the kind of contract ' || terms.contract, terms.kind,
        ARRAY['movement', 'content', 'suggested']);
    IF terms.payer = terms.provider THEN
        RAISE EXCEPTION 'contract % is one of % with itself: name two parties', terms.contract,
            terms.payer USING ERRCODE = 'MD001';
    END IF;
    IF (terms.currency ~ '^[A-Z]{3}$') IS NOT TRUE THEN
        RAISE EXCEPTION 'the currency % of contract % is none: write three capitals, such as EUR',
            coalesce(quote_literal(left(terms.currency, 80)), 'NULL'), terms.contract
            USING ERRCODE = 'MD001';
    END IF;
    IF terms.validity IS NULL OR isempty(terms.validity) OR NOT lower_inc(terms.validity)
        OR upper_inc(terms.validity) OR lower_inf(terms.validity) OR upper_inf(terms.validity)
        OR NOT isfinite(lower(terms.validity)) OR NOT isfinite(upper(terms.validity))
    THEN
        RAISE EXCEPTION 'the validity of contract % is %: write a time with a beginning and a '
            'later end, such as [2026-01-01,2027-01-01)', terms.contract,
            coalesce(quote_literal(terms.validity::text), 'NULL') USING ERRCODE = 'MD001';
    END IF;
    IF medusa.at_ms(medusa.to_ms(lower(terms.validity))) <> lower(terms.validity)
        OR medusa.at_ms(medusa.to_ms(upper(terms.validity))) <> upper(terms.validity)
    THEN
        RAISE EXCEPTION 'the validity of contract % is finer than milliseconds: round it',
            terms.contract USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.check_length('the settlement period of contract ' || terms.contract,
        terms.settlement_ms, 1);
    PERFORM medusa.check_length('the notice of contract ' || terms.contract, terms.notice_ms, 0);
    IF (terms.number > 0 AND (terms.number = 1) = (terms.supersedes IS NULL)) IS NOT TRUE THEN
        RAISE EXCEPTION 'revision % of contract % supersedes %: the first alone supersedes nothing',
            terms.number, terms.contract, coalesce(terms.supersedes, 'nothing')
            USING ERRCODE = 'MD001';
    END IF;
    strange := CASE terms.kind
        WHEN 'movement' THEN CASE WHEN num_nonnulls(terms.stream, terms.price, terms.per,
            terms.instead) > 0 THEN 'stream, price, per and instead' END
        WHEN 'content' THEN CASE WHEN num_nonnulls(terms.price_low, terms.price_high,
            terms.price_step, terms.fragments, terms.load_max, terms.billed, terms.instead) > 0
            THEN 'price_low, price_high, price_step, fragments, load_max, billed and instead' END
        ELSE CASE WHEN num_nonnulls(terms.price_low, terms.price_high, terms.price_step,
            terms.fragments, terms.load_max, terms.billed, terms.recovery, terms.method,
            terms.replicas, terms.bound_ms, terms.penalty, terms.hold_ms_max, terms.price,
            terms.per) > 0 THEN 'all but stream and instead' END
        END;
    IF strange IS NOT NULL THEN
        RAISE EXCEPTION 'contract % is one of kind %: leave % out', terms.contract, terms.kind,
            strange USING ERRCODE = 'MD001';
    END IF;
    IF terms.kind = 'suggested' THEN
        PERFORM medusa.check_names(terms.stream, terms.instead);
        IF terms.instead IN (terms.payer, terms.provider) THEN
            RAISE EXCEPTION 'contract % suggests to buy from %, a party itself: name a third '
                'participant', terms.contract, terms.instead USING ERRCODE = 'MD001';
        END IF;
        RETURN;
    END IF;
    PERFORM medusa.check_word('the recovery of contract ' || terms.contract, terms.recovery,
        ARRAY['gap', 'rollback', 'precise']);
    PERFORM medusa.check_word('the method of contract ' || terms.contract, terms.method,
        ARRAY['amnesia', 'passive_standby', 'active_standby', 'upstream_backup']);
    PERFORM medusa.check_amount('the penalty', terms.penalty, 0);
    PERFORM medusa.check_length('a hold under contract ' || terms.contract, terms.hold_ms_max, 1);
    IF (terms.replicas BETWEEN 1 AND 9007199254740991) IS NOT TRUE THEN
        RAISE EXCEPTION 'contract % promises % replicas: write 1 or more', terms.contract,
            coalesce(terms.replicas::text, 'NULL') USING ERRCODE = 'MD001';
    END IF;
    IF terms.method = 'amnesia' AND terms.recovery <> 'gap' THEN
        RAISE EXCEPTION 'contract % promises % recovery, but with method amnesia a failure loses '
            'what was in work: promise gap, or another method', terms.contract, terms.recovery
            USING ERRCODE = 'MD001';
    END IF;
    IF terms.method = 'active_standby' AND terms.replicas < 2 THEN
        RAISE EXCEPTION 'contract % leaves method active_standby with % replica: write 2 or more',
            terms.contract, terms.replicas USING ERRCODE = 'MD001';
    END IF;
    IF terms.bound_ms IS NOT NULL THEN
        PERFORM medusa.check_length('the bound of contract ' || terms.contract, terms.bound_ms, 1);
    END IF;
    IF terms.kind = 'content' THEN
        PERFORM medusa.check_names(terms.stream);
        PERFORM medusa.check_amount('the price', terms.price);
        PERFORM medusa.check_word('what contract ' || terms.contract || ' is paid per', terms.per,
            ARRAY['record', 'period']);
        RETURN;
    END IF;
    PERFORM medusa.check_amount('the price''s low', terms.price_low);
    PERFORM medusa.check_amount('the price''s high', terms.price_high);
    PERFORM medusa.check_amount('the price''s step', terms.price_step);
    PERFORM medusa.check_amount('the most load', terms.load_max);
    IF terms.price_low > terms.price_high THEN
        RAISE EXCEPTION 'the lowest price % lies above the highest %: exchange them',
            trim_scale(terms.price_low), trim_scale(terms.price_high) USING ERRCODE = 'MD001';
    END IF;
    IF (terms.price_high - terms.price_low) % terms.price_step <> 0 THEN
        RAISE EXCEPTION 'steps of % do not lead from % to %: choose a step that divides %',
            trim_scale(terms.price_step), trim_scale(terms.price_low),
            trim_scale(terms.price_high), trim_scale(terms.price_high - terms.price_low)
            USING ERRCODE = 'MD001';
    END IF;
    IF (terms.price_high - terms.price_low) / terms.price_step > 1000 THEN
        RAISE EXCEPTION 'a price range of % steps is too fine: choose a step that makes 1,000 at '
            'most', trim_scale((terms.price_high - terms.price_low) / terms.price_step)
            USING ERRCODE = 'MD001';
    END IF;
    IF terms.fragments IS NOT NULL THEN
        IF cardinality(terms.fragments) = 0 THEN
            RAISE EXCEPTION 'contract % lets nothing move: name fragments, or NULL for any',
                terms.contract USING ERRCODE = 'MD001';
        END IF;
        PERFORM medusa.check_fragments(terms.fragments);
    END IF;
    IF (cardinality(terms.billed) > 0) IS NOT TRUE OR NOT terms.billed <@ ARRAY(
        SELECT c::text FROM unnest(enum_range(NULL::medusa.cause)) AS c)
    THEN
        RAISE EXCEPTION 'contract % bills %: name causes of steps, such as {normal}',
            terms.contract, coalesce(terms.billed::text, 'nothing') USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_terms(medusa.contract_revision) IS
    'Refuse terms that contradict each other, with a sentence; the constraints stand behind it.';

CREATE OR REPLACE FUNCTION medusa.check_overlap(terms medusa.contract_revision) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other medusa.contract_claim;
BEGIN
    SELECT c.* INTO other FROM medusa.contract_claim AS c
    WHERE c.contract <> terms.contract AND c.kind = terms.kind
        AND (c.payer, c.provider) = (terms.payer, terms.provider) AND c.validity && terms.validity
        AND (c.subject = '*' OR c.subject = terms.stream OR terms.kind = 'movement'
            AND (terms.fragments IS NULL OR EXISTS (
                SELECT FROM unnest(terms.fragments) AS f
                WHERE medusa.is_fragment_of(f, c.subject) OR medusa.is_fragment_of(c.subject, f))))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'contract % is about % from % to % already: choose another validity or '
            'subject, or end it before', other.contract,
            CASE other.subject WHEN '*' THEN 'any fragment' ELSE other.subject END,
            lower(other.validity), upper(other.validity) USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_overlap(medusa.contract_revision) IS
    'Refuse terms about what an agreed contract is about at the same time; the exclusion '
    'constraint stands behind it.';

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
    IF last.number % 10 = 0 THEN
        PERFORM medusa.tell_standings();
    END IF;
    RETURN last.number;
END $$;
COMMENT ON FUNCTION medusa.open_round(bigint, text) IS
    'Open the next round if so much time has passed since the last (0: in any case); its number, '
    'or NULL. Whoever comes at the same time waits and gets NULL. What is agreed is active from it '
    'on, unless somebody is just editing it; every tenth, partners are told one hash of what is '
    'agreed with them.';

CREATE OR REPLACE FUNCTION medusa.put_message(receiver text, kind text, about text, body bytea) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
#variable_conflict use_column
DECLARE
    found bigint;
BEGIN
    PERFORM medusa.check_names(put_message.receiver);
    IF (put_message.kind ~ '^[a-z][a-z_]{0,30}$' AND octet_length(put_message.body) <= 98304
        AND char_length(put_message.about) BETWEEN 1 AND 200) IS NOT TRUE
        OR put_message.kind IN ('document', 'withdrawal', 'let_go', 'want', 'notice',
            'refusal', 'standing', 'holdings')
    THEN
        RAISE EXCEPTION 'a message has a kind, says what it is about, and is 96 KiB long at most'
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.outbox (receiver, kind, about, body)
    VALUES (put_message.receiver, put_message.kind, put_message.about, put_message.body)
    ON CONFLICT (receiver, about) WHERE acknowledged_at IS NULL DO NOTHING
    RETURNING message_id INTO found;
    RETURN found;
END $$;
COMMENT ON FUNCTION medusa.put_message(text, text, text, bytea) IS
    'For jobs: tell a partner something of a kind of its own; its number, NULL if the same waits.';

CREATE OR REPLACE FUNCTION medusa.take_offer(envelope_id bigint) RETURNS bigint
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
    -- A partner that has lost its home counts from 1 again, and is heard again after an hour, or
    -- once it has said that its home is another one.
    IF EXISTS (
        SELECT FROM medusa.offer AS o
        WHERE NOT o.is_own AND o.partner = envelope.sender AND o.contract = agreed.contract
            AND o.said_round > (given->>'round')::bigint
            AND o.made_at > clock_timestamp() - interval '1 hour'
            AND o.made_at > coalesce((
                SELECT p.since FROM medusa.partner_home AS p
                WHERE p.partner = envelope.sender), '-infinity'))
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
                'medusa.verify_audit, medusa.audit_hash TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_agreements_to_roles() IS
    'Jobs sign, send and take documents; analysts and Airflow see what is agreed; a partner''s '
    'reader may put envelopes into the inbox, and sees nothing.';

DROP FUNCTION medusa.tell_agreement(text);

-- Answers that say nothing of room, and answers to what does not pay any more ----------------------

ALTER TABLE medusa.answer DROP CONSTRAINT answer_reason_check;
ALTER TABLE medusa.answer ADD CONSTRAINT answer_reason_check
    CHECK (reason IN ('taken', 'full', 'load_max', 'revision', 'terms', 'stale', 'unweighed'));

DROP FUNCTION medusa.take_answer(bigint);
CREATE FUNCTION medusa.take_answer(envelope_id bigint, keeps jsonb, judged_at bigint)
RETURNS bigint
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
    -- 1 To which offer? What is kept of it was judged from what stood here then.
    IF trades.changes - 1 IS DISTINCT FROM coalesce(judged_at, trades.changes - 1) THEN
        RAISE EXCEPTION 'others have offered or answered meanwhile: read again'
            USING ERRCODE = 'MD002';
    END IF;
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

    -- 3 What is accepted is given, or granted so that this home may take something itself. What
    -- does not pay any more is not.
    INSERT INTO medusa.agreed_move (is_given, partner, contract, revision, fragment, partition, load,
        level, price, answer_id, state, round, expires_at, ended_at)
    SELECT true, made.partner, made.contract, made.revision, i.fragment, i.partition, i.load,
        made.level, made.price, said.answer_id,
        CASE WHEN k.is_lapsed THEN 'lapsed' WHEN made.relays THEN 'granted' ELSE 'accepted' END,
        said.round, clock_timestamp() + trades.move_ms * interval '1 ms',
        CASE WHEN k.is_lapsed THEN clock_timestamp() END
    FROM jsonb_to_recordset(given->'accepted')
        AS i (fragment text, partition bigint, load double precision),
        LATERAL (SELECT NOT coalesce(
            keeps @> jsonb_build_array(jsonb_build_array(i.fragment, i.partition)), true)
            AS is_lapsed) AS k;
    INSERT INTO medusa.last_word AS w (contract, is_own, answer_id)
    VALUES (made.contract, false, said.answer_id)
    ON CONFLICT (contract, is_own) DO UPDATE SET answer_id = EXCLUDED.answer_id;
    PERFORM medusa.write_audit('answered', made.contract, to_jsonb(made.nonce),
        given - ARRAY['format', 'contract', 'nonce']);
    RETURN said.answer_id;
END $$;
COMMENT ON FUNCTION medusa.take_answer(bigint, jsonb, bigint) IS
    'A verified answer ends the offer that it names, and what it accepts is agreed; refused if that '
    'was never offered, or not any more. Of what is accepted only `keeps` (fragment and partition; '
    'NULL: all) is given, the rest lapses: it was judged at so many changes of the market. Its '
    'number.';

CREATE OR REPLACE VIEW medusa_api.contract WITH (security_invoker = true) AS
    WITH chosen AS (
        SELECT DISTINCT ON (c.contract) c.contract, c.revision, c.place, c.expires_at
        FROM (
            SELECT p.contract, p.revision, CASE p.proposed_by WHEN h.participant THEN 1 ELSE 3 END
                AS place, p.expires_at, 0::bigint AS number
            FROM medusa.contract_proposal AS p CROSS JOIN medusa.home AS h
            WHERE p.state = 'open'
            UNION ALL
            SELECT a.contract, a.revision, 2, NULL, a.number FROM medusa.contract_agreement AS a
        ) AS c
        ORDER BY c.contract, c.place, c.number DESC
    )
    SELECT c.contract,
        CASE c.place WHEN 1 THEN 'proposed' WHEN 3 THEN 'asked' ELSE
            CASE WHEN least(upper(r.validity), n.ends_at) <= clock_timestamp() THEN 'ended'
                WHEN v.revision = c.revision AND lower(r.validity) <= clock_timestamp()
                    THEN 'in force'
                ELSE 'agreed' END END AS state,
        r.number, r.kind, r.payer, r.provider, r.currency, r.validity, r.settlement_ms, r.notice_ms,
        r.price_low, r.price_high, r.price_step, r.fragments, r.load_max, r.billed, r.recovery,
        r.method, r.replicas, r.bound_ms, r.penalty, r.hold_ms_max, r.stream, r.price, r.per,
        r.instead, c.expires_at, n.ends_at, c.revision, v.revision AS active_revision,
        o.revision AS partner_proposes
    FROM chosen AS c
    JOIN medusa.contract_revision AS r ON r.revision = c.revision
    CROSS JOIN medusa.home AS h
    LEFT JOIN LATERAL (
        SELECT a.revision FROM medusa.contract_activation AS a WHERE a.contract = c.contract
        ORDER BY a.number DESC LIMIT 1) AS v ON true
    CROSS JOIN LATERAL (SELECT medusa.ends_at(c.contract) AS ends_at) AS n
    LEFT JOIN medusa.contract_proposal AS o ON o.contract = c.contract AND o.state = 'open'
        AND o.proposed_by <> h.participant;
COMMENT ON VIEW medusa_api.contract IS
    'This home''s copy of each contract, which its owner edits: what it proposes (state proposed), '
    'else what both agreed (agreed, in force from the next round on, or ended), else what a '
    'partner asks for (asked). UPDATE proposes, INSERT proposes a new one, DELETE withdraws or '
    'gives notice.';

CREATE OR REPLACE VIEW medusa_api.contract_in_force WITH (security_invoker = true) AS
    SELECT r.contract, v.round, r.number, r.revision, r.document, r.kind, r.payer, r.provider,
        r.currency, tstzrange(lower(r.validity), least(upper(r.validity), n.ends_at)) AS validity
    FROM medusa.contract_activation AS v
    JOIN medusa.contract_revision AS r ON r.revision = v.revision
    CROSS JOIN LATERAL (SELECT medusa.ends_at(r.contract) AS ends_at) AS n
    WHERE NOT EXISTS (
        SELECT FROM medusa.contract_activation AS later
        WHERE later.contract = v.contract AND later.number > v.number)
        AND lower(r.validity) <= clock_timestamp()
        AND least(upper(r.validity), n.ends_at) > clock_timestamp();
COMMENT ON VIEW medusa_api.contract_in_force IS
    'What contracts say that are active and valid now, and from which round on.';

CREATE OR REPLACE VIEW medusa_api.contract_history WITH (security_invoker = true) AS
    SELECT r.contract, r.number, a.agreed_at, v.round, v.activated_at, r.revision, r.document,
        ARRAY(SELECT DISTINCT g.party FROM medusa.contract_signature AS g WHERE g.revision = r.revision
            ORDER BY g.party) AS signed_by
    FROM medusa.contract_agreement AS a
    JOIN medusa.contract_revision AS r ON r.revision = a.revision
    LEFT JOIN medusa.contract_activation AS v ON v.revision = a.revision;
COMMENT ON VIEW medusa_api.contract_history IS
    'Every agreed revision of every contract, and from which round on it was active here.';

CREATE OR REPLACE VIEW medusa_api.contract_proposals WITH (security_invoker = true) AS
    SELECT p.contract, p.proposal_id, p.proposed_by, CASE WHEN p.state = 'agreed' AND NOT EXISTS (
            SELECT FROM medusa.contract_agreement AS a WHERE a.revision = p.revision)
            THEN 'void' ELSE p.state END AS state, r.number, p.made_at, p.expires_at,
        p.ended_at, p.who, p.because, (
            SELECT string_agg(format('%s %s -> %s', f.key, coalesce(b.value, 'nothing'),
                coalesce(f.value, 'nothing')), ', ' ORDER BY f.key)
            FROM jsonb_each_text(to_jsonb(r) - ARRAY['revision', 'document', 'number', 'supersedes',
                'known_at']) AS f (key, value)
            LEFT JOIN jsonb_each_text(to_jsonb(s)) AS b (key, value) ON b.key = f.key
            WHERE s.revision IS NOT NULL AND f.value IS DISTINCT FROM b.value) AS changes,
        ARRAY(SELECT DISTINCT g.party FROM medusa.contract_signature AS g WHERE g.revision = p.revision
            ORDER BY g.party) AS signed_by, p.revision
    FROM medusa.contract_proposal AS p
    JOIN medusa.contract_revision AS r ON r.revision = p.revision
    LEFT JOIN medusa.contract_revision AS s ON s.revision = r.supersedes;
COMMENT ON VIEW medusa_api.contract_proposals IS
    'Edits of either party, what they change, and what became of them.';

CREATE OR REPLACE VIEW medusa_api.contract_notices WITH (security_invoker = true) AS
    SELECT contract, given_by, told_by, ends_at, noted_at FROM medusa.contract_notice;
COMMENT ON VIEW medusa_api.contract_notices IS 'Who ends which contract, as either party has said; medusa_api.contract says when it ends.';

CREATE OR REPLACE VIEW medusa_api.party_keys WITH (security_invoker = true) AS
    SELECT k.participant, encode(k.public_key, 'hex') AS public_key, k.learned_at, k.learned_by,
        k.because, NOT k.is_past AND NOT EXISTS (
            SELECT FROM medusa.party_key AS n
            WHERE n.participant = k.participant AND n.key_id > k.key_id
                AND NOT n.is_past) AS counts, d.disowned_at
    FROM medusa.party_key AS k
    LEFT JOIN medusa.key_disowned AS d ON d.public_key = k.public_key;
COMMENT ON VIEW medusa_api.party_keys IS
    'By which keys this home knows itself and its partners, now and before.';

CREATE VIEW medusa_api.contract_voids WITH (security_invoker = true) AS
    SELECT contract, number, revision, because, voided_at FROM medusa.contract_void;
COMMENT ON VIEW medusa_api.contract_voids IS
    'Agreements that count no more here, and why: both homes keep another one, or none.';

REVOKE ALL ON medusa.key_disowned, medusa.statement, medusa.statement_due, medusa.contract_void,
    medusa.partner_home, medusa_api.contract_voids FROM PUBLIC;
REVOKE ALL ON FUNCTION medusa.check_fragments, medusa.guard_voided, medusa.hear_notices, medusa.held_agreement,
    medusa.holdings_with, medusa.is_fragment, medusa.is_fragment_of, medusa.note_notice,
    medusa.note_signature, medusa.note_statement, medusa.owe_statement, medusa.put_notices,
    medusa.standing_with, medusa.state, medusa.take_answer, medusa.take_document,
    medusa.take_holdings, medusa.take_notice, medusa.take_refusal, medusa.take_standing,
    medusa.tell_standings, medusa.void_agreements, medusa_api.disown_key,
    medusa_api.learn_past_key FROM PUBLIC;

CREATE FUNCTION medusa.grant_converging_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text;
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['owner', 'job', 'analyst', 'airflow'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN role = current_user
            OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.ends_at TO %I', role);
        IF kind = 'owner' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.check_fragments, '
                'medusa.is_fragment, medusa.is_fragment_of, medusa_api.disown_key, '
                'medusa_api.learn_past_key TO %I', role);
        END IF;
        CONTINUE WHEN kind NOT IN ('owner', 'job');
        EXECUTE format('GRANT SELECT ON medusa.key_disowned, medusa.statement, '
            'medusa.statement_due, medusa.contract_void, medusa.partner_home, '
            'medusa_api.contract_voids TO %I', role);
        IF kind = 'job' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.state, medusa.held_agreement, '
                'medusa.take_document, medusa.take_notice, medusa.take_refusal, '
                'medusa.tell_standings, medusa.take_standing, medusa.take_holdings, '
                'medusa.holdings_with, medusa.take_answer TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_converging_to_roles() IS
    'Jobs state, compare and take what partners hold; the owner looks on; who sees contracts sees '
    'when they end.';
REVOKE ALL ON FUNCTION medusa.grant_converging_to_roles() FROM PUBLIC;
SELECT medusa.grant_converging_to_roles();

-- What was agreed and said before is stated now, so that it can be shown to a home that has lost it.
INSERT INTO medusa.statement_due (statement)
SELECT 'holds ' || a.revision FROM medusa.contract_agreement AS a
JOIN medusa.contract_revision AS r ON r.revision = a.revision
JOIN medusa.home AS h ON h.participant = r.provider
UNION
SELECT 'ends ' || n.contract || ' ' || n.given_by || ' ' || medusa.to_ms(n.ends_at)
FROM medusa.contract_notice AS n JOIN medusa.home AS h ON h.participant = n.told_by;
