-- Agreements: contracts with partners as signed documents, edited in SQL; and an owner that logs in
-- without owning what it works on.

-- Agreements: contracts with partners, their signed documents, and what travels about them ---------
--
-- A contract is one document; its SHA-256 is the revision. Each party keeps a copy in its own home
-- and edits it there: an edit is a proposal, the same edit by the other party accepts it. So that
-- two edits at once never make two agreements, the payer signs last: the provider's signature is an
-- offer, which it may take back until it hears of the payer's; the payer signs one revision of each
-- number. A revision is agreed in a home that holds both signatures, and active from its next round.
-- Signatures are made and verified by the participant's own program, before they come here.

CREATE FUNCTION medusa.is_name(name text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT name ~ '^[a-z][a-z0-9_]{0,62}$' $$;
COMMENT ON FUNCTION medusa.is_name(text) IS
    'Whether a text can name a participant, a contract, a stream or a fragment; NULL of NULL.';

CREATE FUNCTION medusa.at_ms(ms bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT (timestamp 'epoch' + make_interval(
        days => (ms / 86400000)::integer, secs => (ms % 86400000) / 1000.0)) AT TIME ZONE 'UTC'
$$;
COMMENT ON FUNCTION medusa.at_ms(bigint) IS 'The time that is so many ms after the epoch, exactly.';

CREATE FUNCTION medusa.subject_range(name text) RETURNS int8range
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN name IS NULL THEN int8range(NULL, NULL) ELSE int8range(h, h, '[]') END
    FROM (SELECT (('x' || left(encode(sha256(convert_to(name, 'UTF8')), 'hex'), 16))::bit(64)::bigint
        & 4611686018427387903) AS h) AS hashed
$$;
COMMENT ON FUNCTION medusa.subject_range(text) IS
    'A text as a range that overlaps that of the same text only (by 62 bits of SHA-256), and NULL '
    'as one that overlaps all: exclusion constraints need ranges where no extension is.';

CREATE TABLE medusa.party_key (
    key_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    participant text COLLATE "C" NOT NULL,
    public_key  bytea NOT NULL,
    replaces    bigint REFERENCES medusa.party_key,
    because     text NOT NULL,
    learned_by  text NOT NULL DEFAULT session_user,
    learned_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT party_key_is_of_a_participant CHECK (medusa.is_name(participant)),
    CONSTRAINT party_key_has_32_bytes CHECK (octet_length(public_key) = 32),
    CONSTRAINT party_key_says_why CHECK (char_length(because) BETWEEN 1 AND 200)
);
COMMENT ON TABLE medusa.party_key IS
    'Ed25519 keys by which this home knows itself and its partners; the newest of each counts, the '
    'older tell what was signed under them; insert-only.';
COMMENT ON COLUMN medusa.party_key.replaces IS 'The key before; only the owner replaces one.';
CREATE INDEX party_key_of_participant ON medusa.party_key (participant, key_id);
COMMENT ON INDEX medusa.party_key_of_participant IS 'The newest key of a participant.';

CREATE TABLE medusa.contract_order (
    contract text COLLATE "C" PRIMARY KEY CHECK (medusa.is_name(contract)),
    edits    bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE medusa.contract_order IS
    'A row per contract, changed by whoever edits it or brings a document: one after the other, '
    'and nobody from a snapshot of before.';

CREATE TABLE medusa.contract_revision (
    revision      text COLLATE "C" PRIMARY KEY,
    document      bytea NOT NULL,
    contract      text COLLATE "C" NOT NULL,
    number        bigint NOT NULL,
    supersedes    text COLLATE "C",
    kind          text COLLATE "C" NOT NULL,
    payer         text COLLATE "C" NOT NULL,
    provider      text COLLATE "C" NOT NULL,
    currency      text COLLATE "C" NOT NULL,
    validity      tstzrange NOT NULL,
    settlement_ms bigint NOT NULL,
    notice_ms     bigint NOT NULL,
    price_low     numeric,
    price_high    numeric,
    price_step    numeric,
    fragments     text[] COLLATE "C",
    load_max      numeric,
    billed        text[] COLLATE "C",
    recovery      text COLLATE "C",
    method        text COLLATE "C",
    replicas      bigint,
    bound_ms      bigint,
    penalty       numeric,
    hold_ms_max   bigint,
    stream        text COLLATE "C",
    price         numeric,
    per           text COLLATE "C",
    instead       text COLLATE "C",
    known_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (contract, number, revision),
    CONSTRAINT revision_is_the_hash CHECK (revision = encode(sha256(document), 'hex')),
    CONSTRAINT document_is_short CHECK (octet_length(document) <= 65536),
    CONSTRAINT first_alone_supersedes_nothing CHECK ((number = 1) = (supersedes IS NULL)),
    CONSTRAINT number_is_above_zero CHECK (number > 0),
    CONSTRAINT parties_are_two CHECK (payer <> provider),
    CONSTRAINT currency_is_three_capitals CHECK (currency ~ '^[A-Z]{3}$'),
    CONSTRAINT validity_is_a_time CHECK (NOT isempty(validity) AND lower_inc(validity)
        AND NOT upper_inc(validity) AND isfinite(lower(validity)) AND isfinite(upper(validity))),
    CONSTRAINT periods_are_durations CHECK (settlement_ms > 0 AND notice_ms >= 0),
    CONSTRAINT kind_has_its_terms CHECK (CASE kind
        WHEN 'movement' THEN num_nonnulls(price_low, price_high, price_step, load_max, billed,
            recovery, method, replicas, penalty, hold_ms_max) = 10
            AND num_nonnulls(stream, price, per, instead) = 0
        WHEN 'content' THEN num_nonnulls(stream, price, per, recovery, method, replicas, penalty,
            hold_ms_max) = 8
            AND num_nonnulls(price_low, price_high, price_step, fragments, load_max, billed,
                instead) = 0
        WHEN 'suggested' THEN num_nonnulls(stream, instead) = 2
            AND num_nonnulls(price_low, price_high, price_step, fragments, load_max, billed,
                recovery, method, replicas, bound_ms, penalty, hold_ms_max, price, per) = 0
        ELSE false END),
    CONSTRAINT prices_are_a_range CHECK (price_low > 0 AND price_low <= price_high
        AND price_step > 0 AND (price_high - price_low) % price_step = 0
        AND (price_high - price_low) / price_step <= 1000),
    CONSTRAINT promise_is_one CHECK (replicas > 0 AND hold_ms_max > 0
        AND coalesce(bound_ms > 0, true) AND penalty >= 0
        AND recovery IN ('gap', 'rollback', 'precise') AND method IN ('amnesia',
            'passive_standby', 'active_standby', 'upstream_backup'))
);
COMMENT ON TABLE medusa.contract_revision IS
    'What contracts say, revision by revision, proposed or agreed; insert-only. The columns say '
    'what the document says, which a trigger compares.';
COMMENT ON COLUMN medusa.contract_revision.revision IS 'SHA-256 of the document.';
COMMENT ON COLUMN medusa.contract_revision.document IS
    'The canonical bytes that both parties sign: medusa_core/market/documents.py.';
COMMENT ON COLUMN medusa.contract_revision.number IS 'Counts the agreed revisions, from 1 on.';
COMMENT ON COLUMN medusa.contract_revision.supersedes IS 'The revision before; NULL of the first.';
COMMENT ON COLUMN medusa.contract_revision.price_low IS
    'Currency per unit of load and hour: level 0; price_high is the highest level.';
COMMENT ON COLUMN medusa.contract_revision.fragments IS 'What may move; NULL: any of the payer''s.';
COMMENT ON COLUMN medusa.contract_revision.billed IS 'The causes of steps that are paid for.';
COMMENT ON COLUMN medusa.contract_revision.bound_ms IS 'The bound promised; NULL: none is.';
COMMENT ON COLUMN medusa.contract_revision.instead IS 'From whom to buy the stream.';

CREATE FUNCTION medusa.json_list(texts text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN texts IS NULL THEN 'null' ELSE '[' || coalesce((
        SELECT string_agg('"' || t || '"', ',' ORDER BY t COLLATE "C") FROM unnest(texts) AS t
    ), '') || ']' END
$$;
COMMENT ON FUNCTION medusa.json_list(text[]) IS 'Names as a sorted list in JSON.';

CREATE FUNCTION medusa.contract_document(terms medusa.contract_revision) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT convert_to('{"contract":"' || terms.contract || '","currency":"' || terms.currency
        || '","format":"medusa.contract/1","kind":"' || terms.kind
        || '","notice_ms":' || terms.notice_ms || ',"number":' || terms.number
        || ',"payer":"' || terms.payer || '","provider":"' || terms.provider
        || '","settlement_ms":' || terms.settlement_ms || ',"subject":{'
        || CASE WHEN terms.kind = 'suggested' THEN
            '"instead":"' || terms.instead || '","stream":"' || terms.stream || '"'
        ELSE
            '"availability":{"bound_ms":' || coalesce(terms.bound_ms::text, 'null')
            || ',"method":"' || terms.method || '","recovery":"' || terms.recovery
            || '","replicas":' || terms.replicas || '},'
            || CASE terms.kind WHEN 'movement' THEN
                '"billed":' || medusa.json_list(terms.billed)
                || ',"fragments":' || medusa.json_list(terms.fragments)
                || ',"hold_ms_max":' || terms.hold_ms_max
                || ',"load_max":"' || trim_scale(terms.load_max)
                || '","penalty":"' || trim_scale(terms.penalty)
                || '","price_high":"' || trim_scale(terms.price_high)
                || '","price_low":"' || trim_scale(terms.price_low)
                || '","price_step":"' || trim_scale(terms.price_step) || '"'
            ELSE
                '"hold_ms_max":' || terms.hold_ms_max
                || ',"penalty":"' || trim_scale(terms.penalty) || '","per":"' || terms.per
                || '","price":"' || trim_scale(terms.price) || '","stream":"' || terms.stream || '"'
            END
        END || '},"supersedes":' || coalesce('"' || terms.supersedes || '"', 'null')
        || ',"valid_from_ms":' || medusa.to_ms(lower(terms.validity))
        || ',"valid_until_ms":' || medusa.to_ms(upper(terms.validity)) || '}', 'UTF8')
$$;
COMMENT ON FUNCTION medusa.contract_document(medusa.contract_revision) IS
    'The one document of these terms: the bytes that medusa_core/market/documents.py writes.';

CREATE FUNCTION medusa.terms_of(document bytea) RETURNS medusa.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given  jsonb;
    terms  medusa.contract_revision;
BEGIN
    IF (octet_length(document) BETWEEN 2 AND 65536) IS NOT TRUE THEN
        RAISE EXCEPTION 'a contract of % bytes: none is longer than 64 KiB',
            coalesce(octet_length(document), 0) USING ERRCODE = 'MD001';
    END IF;
    given := convert_from(document, 'UTF8')::jsonb;
    SELECT * INTO terms FROM jsonb_populate_record(NULL::medusa.contract_revision,
        given->'subject' || coalesce(given->'subject'->'availability', '{}')
        || (given - ARRAY['subject', 'validity', 'revision', 'document', 'known_at']));
    terms.validity := tstzrange(medusa.at_ms((given->>'valid_from_ms')::bigint),
        medusa.at_ms((given->>'valid_until_ms')::bigint));
    terms.document := terms_of.document;
    terms.revision := encode(sha256(terms_of.document), 'hex');
    terms.known_at := clock_timestamp();
    RETURN terms;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'this is no contract''s document: send one as Medusa writes it'
        USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.terms_of(bytea) IS
    'The columns that a document says; whether it is written as it must be, the table checks.';

CREATE FUNCTION medusa.check_amount(
    what text, amount numeric, lowest numeric DEFAULT 0.000001
) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (amount BETWEEN lowest AND 1000000000000 AND amount = round(amount, 6)) IS NOT TRUE THEN
        RAISE EXCEPTION '% is %: write a number %, 1,000,000,000,000 at most, with six decimal '
            'places at most', what, coalesce(left(amount::text, 60), 'missing'),
            CASE WHEN lowest > 0 THEN 'above 0' ELSE 'from 0' END USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_amount(text, numeric, numeric) IS
    'Refuse an amount that is NULL, too large, too fine or not above 0 (or 0).';

CREATE FUNCTION medusa.check_length(what text, ms bigint, lowest bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (ms >= lowest AND ms < 9007199254740992) IS NOT TRUE THEN
        RAISE EXCEPTION '% is % ms: write a duration, in milliseconds', what,
            coalesce(ms::text, 'missing') USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_length(text, bigint, bigint) IS
    'Refuse a duration that is NULL, too short or beyond reason.';

CREATE FUNCTION medusa.check_word(what text, word text, known text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (word = ANY (known)) IS NOT TRUE THEN
        RAISE EXCEPTION '% is %: write one of %', what, coalesce(quote_literal(left(word, 80)),
            'missing'), array_to_string(known, ', ') USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_word(text, text, text[]) IS 'Refuse a word that is none of these.';

CREATE FUNCTION medusa.check_names(VARIADIC names text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY names LOOP
        IF medusa.is_name(name) IS NOT TRUE THEN
            RAISE EXCEPTION '% is not a name: begin with a lower-case letter, go on with '
                'lower-case letters, digits and _, 63 characters at most',
                coalesce(quote_literal(left(name, 80)), 'NULL') USING ERRCODE = 'MD001';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.check_names(text[]) IS 'Refuse what is not a name; so is NULL.';

CREATE FUNCTION medusa.check_terms(terms medusa.contract_revision) RETURNS void
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
        PERFORM medusa.check_names(VARIADIC terms.fragments);
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

CREATE FUNCTION medusa.sorted_terms(terms medusa.contract_revision)
RETURNS medusa.contract_revision
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF terms.fragments IS NOT NULL THEN
        terms.fragments := ARRAY(
            SELECT DISTINCT f COLLATE "C" FROM unnest(terms.fragments) AS f ORDER BY 1);
    END IF;
    IF terms.billed IS NOT NULL THEN
        terms.billed := ARRAY(
            SELECT DISTINCT b COLLATE "C" FROM unnest(terms.billed) AS b ORDER BY 1);
    END IF;
    terms.price_low := trim_scale(terms.price_low);
    terms.price_high := trim_scale(terms.price_high);
    terms.price_step := trim_scale(terms.price_step);
    terms.load_max := trim_scale(terms.load_max);
    terms.penalty := trim_scale(terms.penalty);
    terms.price := trim_scale(terms.price);
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa.sorted_terms(medusa.contract_revision) IS
    'The same terms as a document has them: sets sorted, nothing twice in one, no trailing zeros.';

CREATE FUNCTION medusa.guard_revision() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    NEW := medusa.sorted_terms(NEW);
    PERFORM medusa.check_terms(NEW);
    IF NEW.document IS NULL THEN
        NEW.document := medusa.contract_document(NEW);
    ELSIF NEW.document <> medusa.contract_document(NEW) THEN
        RAISE EXCEPTION 'the document of contract % does not say its terms as Medusa writes them: '
            'its hash would not be theirs', NEW.contract USING ERRCODE = 'MD001';
    END IF;
    NEW.revision := encode(sha256(NEW.document), 'hex');
    IF octet_length(NEW.document) > 65536 THEN
        RAISE EXCEPTION 'a contract of % bytes: none is longer than 64 KiB',
            octet_length(NEW.document) USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_revision() IS
    'A revision''s columns, document and hash are the same; sets are sorted.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.contract_revision
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_revision();

CREATE TABLE medusa.contract_signature (
    revision   text COLLATE "C" NOT NULL REFERENCES medusa.contract_revision,
    party      text COLLATE "C" NOT NULL,
    signature  bytea NOT NULL CHECK (octet_length(signature) = 64),
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    who        text NOT NULL DEFAULT session_user,
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (revision, party)
);
COMMENT ON TABLE medusa.contract_signature IS
    'Who signed which revision, each verified before it came here; insert-only.';
COMMENT ON COLUMN medusa.contract_signature.public_key IS 'The key that it was verified with.';

CREATE TABLE medusa.contract_proposal (
    proposal_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract    text COLLATE "C" NOT NULL REFERENCES medusa.contract_order,
    revision    text COLLATE "C" NOT NULL REFERENCES medusa.contract_revision,
    proposed_by text COLLATE "C" NOT NULL,
    because     text NOT NULL CHECK (char_length(because) BETWEEN 1 AND 200),
    who         text NOT NULL DEFAULT session_user,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL CHECK (isfinite(expires_at)),
    state       text NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'agreed', 'withdrawn', 'superseded', 'expired')),
    ended_at    timestamptz,
    let_go_at   timestamptz,
    told_as     bigint,
    CONSTRAINT proposal_ends_once CHECK ((state = 'open') = (ended_at IS NULL)),
    CONSTRAINT proposal_is_let_go_when_ended CHECK (let_go_at IS NULL OR state <> 'open')
);
COMMENT ON TABLE medusa.contract_proposal IS
    'Edits of a party that both have not signed yet, and what became of them; one of each party is '
    'open at a time.';
COMMENT ON COLUMN medusa.contract_proposal.let_go_at IS
    'Since when the payer is known not to sign it any more; until then an agreement may still '
    'come.';
COMMENT ON COLUMN medusa.contract_proposal.told_as IS
    'The number of a partner''s proposal in its own home; NULL of this home''s.';
CREATE UNIQUE INDEX contract_proposal_open ON medusa.contract_proposal (contract, proposed_by)
    WHERE state = 'open';
COMMENT ON INDEX medusa.contract_proposal_open IS 'A party proposes one thing at a time.';
CREATE INDEX contract_proposal_of_revision ON medusa.contract_proposal (revision);
COMMENT ON INDEX medusa.contract_proposal_of_revision IS 'Who proposed a revision.';

CREATE FUNCTION medusa.guard_proposal() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    same medusa.contract_proposal := OLD;
BEGIN
    IF OLD.state = 'open' THEN
        same.state := NEW.state;
        same.ended_at := NEW.ended_at;
    ELSIF OLD.let_go_at IS NULL THEN
        same.let_go_at := NEW.let_go_at;
    END IF;
    IF same IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'proposal % of contract % keeps what it says: make another',
            OLD.proposal_id, OLD.contract USING ERRCODE = 'MDLOG';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_proposal() IS 'A proposal ends once, and is let go once.';
CREATE TRIGGER guard BEFORE UPDATE ON medusa.contract_proposal
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_proposal();

CREATE TABLE medusa.contract_agreement (
    revision  text COLLATE "C" PRIMARY KEY REFERENCES medusa.contract_revision,
    contract  text COLLATE "C" NOT NULL REFERENCES medusa.contract_order,
    number    bigint NOT NULL,
    agreed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (contract, number),
    FOREIGN KEY (contract, number, revision)
        REFERENCES medusa.contract_revision (contract, number, revision)
);
COMMENT ON TABLE medusa.contract_agreement IS
    'Revisions of which this home holds both signatures, one of each number; insert-only.';

CREATE TABLE medusa.contract_notice (
    notice_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract  text COLLATE "C" NOT NULL REFERENCES medusa.contract_order,
    given_by  text COLLATE "C" NOT NULL,
    told_by   text COLLATE "C" NOT NULL,
    ends_at   timestamptz NOT NULL CHECK (isfinite(ends_at)),
    who       text NOT NULL DEFAULT session_user,
    noted_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.contract_notice IS
    'Who ends which contract, and when it ends: the latest time that either party has told, so '
    'that the notice runs in full for the one that is given it; insert-only.';
CREATE INDEX contract_notice_of_contract ON medusa.contract_notice (contract, ends_at);
COMMENT ON INDEX medusa.contract_notice_of_contract IS 'When a contract ends.';

CREATE TABLE medusa.round (
    number    bigint PRIMARY KEY CHECK (number > 0),
    opened_at timestamptz NOT NULL,
    opened_by text NOT NULL DEFAULT session_user,
    because   text NOT NULL CHECK (char_length(because) BETWEEN 1 AND 200)
);
COMMENT ON TABLE medusa.round IS
    'Rounds of this home, by its own clock and count: partners count their own; insert-only.';

CREATE TABLE medusa.contract_activation (
    revision     text COLLATE "C" PRIMARY KEY REFERENCES medusa.contract_agreement,
    contract     text COLLATE "C" NOT NULL,
    number       bigint NOT NULL,
    round        bigint NOT NULL REFERENCES medusa.round,
    activated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (contract, number)
);
COMMENT ON TABLE medusa.contract_activation IS
    'From which round on agreed revisions are active here; the last of a contract is the one that '
    'counts; insert-only.';

CREATE TABLE medusa.contract_claim (
    contract text COLLATE "C" NOT NULL REFERENCES medusa.contract_order,
    subject  text COLLATE "C" NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    payer    text COLLATE "C" NOT NULL,
    provider text COLLATE "C" NOT NULL,
    validity tstzrange NOT NULL,
    between_range int8range NOT NULL GENERATED ALWAYS AS (
        medusa.subject_range(kind || '/' || payer || '/' || provider)) STORED,
    subject_range int8range NOT NULL GENERATED ALWAYS AS (
        medusa.subject_range(nullif(subject, '*'))) STORED,
    PRIMARY KEY (contract, subject),
    CONSTRAINT claim_is_for_a_time CHECK (NOT isempty(validity) AND lower_inc(validity)
        AND NOT upper_inc(validity)),
    CONSTRAINT contracts_of_one_subject_never_overlap EXCLUDE USING gist
        (between_range WITH &&, subject_range WITH &&, validity WITH &&) DEFERRABLE
);
COMMENT ON TABLE medusa.contract_claim IS
    'What agreed contracts are about, and when: no two of one kind, direction and pair of partners '
    'have a subject (a fragment, a stream; * for any fragment) at the same time.';

CREATE TABLE medusa.inbox (
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
    CONSTRAINT refused_with_a_reason CHECK ((state = 'refused') <= (reason IS NOT NULL))
);
COMMENT ON TABLE medusa.inbox IS
    'Envelopes as they came from partners: nothing in them counts before this home''s own program '
    'has verified them; refused ones are kept for a while, with the reason.';
COMMENT ON COLUMN medusa.inbox.hash IS 'Of the whole envelope: the same one again is no second.';
COMMENT ON COLUMN medusa.inbox.repeats IS 'How often the same envelope came again.';
COMMENT ON COLUMN medusa.inbox.reason IS 'Why it was refused, or what it waits for.';
CREATE INDEX inbox_received ON medusa.inbox (sender, envelope_id) WHERE state = 'received';
COMMENT ON INDEX medusa.inbox_received IS 'What is to be verified.';
CREATE UNIQUE INDEX inbox_nonce ON medusa.inbox (sender, nonce)
    WHERE state IN ('verified', 'handled');
COMMENT ON INDEX medusa.inbox_nonce IS 'A nonce counts once.';
CREATE INDEX inbox_of_sender ON medusa.inbox (sender) WHERE state <> 'refused';
COMMENT ON INDEX medusa.inbox_of_sender IS 'How much of a sender is kept.';
CREATE INDEX inbox_refused ON medusa.inbox (envelope_id) WHERE state = 'refused';
COMMENT ON INDEX medusa.inbox_refused IS 'What may be forgotten.';
CREATE INDEX inbox_counted ON medusa.inbox (expires_at_ms) WHERE state IN ('verified', 'handled');
COMMENT ON INDEX medusa.inbox_counted IS 'What would be stale if it came again.';

CREATE TABLE medusa.outbox (
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
COMMENT ON TABLE medusa.outbox IS
    'What is to be told to partners: written with what it tells of, in one transaction, sealed by '
    'this home''s program, and sent again until it lies in the partner''s inbox.';
COMMENT ON COLUMN medusa.outbox.about IS 'The same is not put twice while it waits.';
COMMENT ON COLUMN medusa.outbox.problem IS 'Why it has not arrived yet, as last tried.';
CREATE UNIQUE INDEX outbox_waiting ON medusa.outbox (receiver, about)
    WHERE acknowledged_at IS NULL;
COMMENT ON INDEX medusa.outbox_waiting IS 'What waits to be sent.';

CREATE TABLE medusa.audit (
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
COMMENT ON TABLE medusa.audit IS
    'What was done about agreements, in order: each line holds the hash of the one before and of '
    'itself; insert-only.';
COMMENT ON COLUMN medusa.audit.who IS 'The login that did it.';

CREATE TABLE medusa.audit_head (
    is_only  boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    audit_id bigint NOT NULL,
    hash     bytea NOT NULL
);
COMMENT ON TABLE medusa.audit_head IS
    'The last line of the audit: its row is the order in which lines are written, and shows '
    'whether lines at the end are gone.';

CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.party_key
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.contract_revision
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.contract_signature
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa.contract_proposal
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.contract_agreement
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.contract_notice
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.round
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.contract_activation
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa.audit
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER no_truncate BEFORE DELETE OR TRUNCATE ON medusa.audit_head
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();

CREATE FUNCTION medusa.audit_hash(line medusa.audit) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT sha256(line.previous || convert_to(jsonb_build_array(line.audit_id,
        (extract(epoch FROM line.at) * 1000000)::bigint, line.who, line.what, line.subject,
        line.before, line.after)::text, 'UTF8'))
$$;
COMMENT ON FUNCTION medusa.audit_hash(medusa.audit) IS
    'What a line of the audit hashes to: all that it says, and the hash of the line before.';

CREATE FUNCTION medusa.guard_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    head medusa.audit_head;
BEGIN
    INSERT INTO medusa.audit_head (audit_id, hash) VALUES (0, sha256('')) ON CONFLICT DO NOTHING;
    SELECT * INTO head FROM medusa.audit_head FOR UPDATE;
    NEW.audit_id := head.audit_id + 1;
    NEW.at := clock_timestamp();
    NEW.who := session_user;
    NEW.previous := head.hash;
    NEW.hash := medusa.audit_hash(NEW);
    UPDATE medusa.audit_head SET audit_id = NEW.audit_id, hash = NEW.hash;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_audit() IS
    'Number, clock, login and hashes of a line are set here, whatever is given.';
CREATE TRIGGER guard BEFORE INSERT ON medusa.audit
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_audit();

CREATE FUNCTION medusa.write_audit(what text, subject text, before jsonb, after jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.audit (what, subject, before, after)
    VALUES (write_audit.what, write_audit.subject, write_audit.before, write_audit.after)
$$;
COMMENT ON FUNCTION medusa.write_audit(text, text, jsonb, jsonb) IS 'Add a line to the audit.';

CREATE FUNCTION medusa.verify_audit() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line  medusa.audit;
    head  medusa.audit_head;
    last  bigint := 0;
    chain bytea := sha256('');
BEGIN
    FOR line IN SELECT * FROM medusa.audit ORDER BY audit_id LOOP
        IF line.audit_id <> last + 1 THEN
            RETURN format('line %s of the audit is missing', last + 1);
        END IF;
        IF line.previous <> chain OR line.hash <> medusa.audit_hash(line) THEN
            RETURN format('line %s of the audit is not as it was written', line.audit_id);
        END IF;
        last := line.audit_id;
        chain := line.hash;
    END LOOP;
    SELECT * INTO head FROM medusa.audit_head;
    IF last < coalesce(head.audit_id, 0) THEN
        RETURN format('line %s of the audit is missing', last + 1);
    END IF;
    IF chain IS DISTINCT FROM coalesce(head.hash, sha256('')) THEN
        RETURN format('line %s of the audit is not the last that was written', last);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa.verify_audit() IS
    'NULL if the audit is whole; else the first line that is missing or not as it was written.';

CREATE FUNCTION medusa.here() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    SELECT h.participant INTO name FROM medusa.home AS h;
    IF name IS NULL THEN
        RAISE EXCEPTION 'nobody lives in this database: run medusa migrate' USING ERRCODE = 'MD001';
    END IF;
    RETURN name;
END $$;
COMMENT ON FUNCTION medusa.here() IS 'Whose home this is.';

CREATE FUNCTION medusa.key_of(participant text) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT k.public_key FROM medusa.party_key AS k WHERE k.participant = key_of.participant
    ORDER BY k.key_id DESC LIMIT 1
$$;
COMMENT ON FUNCTION medusa.key_of(text) IS 'The key of a participant that counts; NULL: none is known.';

CREATE FUNCTION medusa.learn_key(
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
    SELECT * INTO known FROM medusa.party_key AS k WHERE k.participant = learn_key.participant
    ORDER BY k.key_id DESC LIMIT 1;
    IF known.public_key = learn_key.public_key THEN
        RETURN false;
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
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.learn_key(text, bytea, text, boolean) IS
    'Note whose key this is; whether it is new. Another key than the known one is refused, unless '
    'it replaces it on purpose, which is the owner''s to say.';

CREATE FUNCTION medusa.learn_first_key(participant text, public_key bytea, because text)
RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT medusa.learn_key(participant, public_key, because) $$;
COMMENT ON FUNCTION medusa.learn_first_key(text, bytea, text) IS
    'For jobs: note a key of somebody of whom none is known; whether it is new.';

CREATE FUNCTION medusa.hex_key(public_key text) RETURNS bytea
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (hex_key.public_key ~ '^[0-9a-f]{64}$') IS NOT TRUE THEN
        RAISE EXCEPTION 'a key is written as 64 hexadecimal digits, as its owner shows it'
            USING ERRCODE = 'MD001';
    END IF;
    RETURN decode(hex_key.public_key, 'hex');
END $$;
COMMENT ON FUNCTION medusa.hex_key(text) IS 'A key in hexadecimal digits as its bytes.';

CREATE FUNCTION medusa_api.learn_key(participant text, public_key text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT medusa.learn_key(participant, medusa.hex_key(public_key), 'told by the owner') $$;
COMMENT ON FUNCTION medusa_api.learn_key(text, text) IS
    'The owner says by which key (64 hexadecimal digits) a partner is known; whether it is new.';

CREATE FUNCTION medusa_api.replace_key(participant text, public_key text) RETURNS boolean
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$$ SELECT medusa.learn_key(participant, medusa.hex_key(public_key), 'replaced by the owner', true) $$;
COMMENT ON FUNCTION medusa_api.replace_key(text, text) IS
    'The owner says on purpose that a participant has another key from now on.';

CREATE FUNCTION medusa.lock_contract(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM medusa.check_names(lock_contract.contract);
    UPDATE medusa.contract_order AS o SET edits = o.edits + 1
    WHERE o.contract = lock_contract.contract;
    IF NOT FOUND THEN
        IF (SELECT count(*) FROM medusa.contract_order) >= 10000 THEN
            RAISE EXCEPTION 'this home knows 10,000 contracts: it takes no more'
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

CREATE FUNCTION medusa.agreed_revision(contract text) RETURNS medusa.contract_revision
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT r.* FROM medusa.contract_agreement AS a
    JOIN medusa.contract_revision AS r ON r.revision = a.revision
    WHERE a.contract = agreed_revision.contract ORDER BY a.number DESC LIMIT 1
$$;
COMMENT ON FUNCTION medusa.agreed_revision(text) IS
    'The last revision of a contract that both have signed; all NULL if there is none.';

CREATE FUNCTION medusa.ends_at(contract text) RETURNS timestamptz
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT max(n.ends_at) FROM medusa.contract_notice AS n WHERE n.contract = ends_at.contract
$$;
COMMENT ON FUNCTION medusa.ends_at(text) IS 'When a contract ends by notice; NULL: none is given.';

CREATE FUNCTION medusa.put_out(receiver text, kind text, about text, body jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.outbox (receiver, kind, about, body)
    VALUES (put_out.receiver, put_out.kind, put_out.about, convert_to(put_out.body::text, 'UTF8'))
    ON CONFLICT (receiver, about) WHERE acknowledged_at IS NULL DO NOTHING
$$;
COMMENT ON FUNCTION medusa.put_out(text, text, text, jsonb) IS
    'Tell a partner something, once this transaction has ended well.';

CREATE FUNCTION medusa.put_document(
    revision text, receiver text, about text, proposal bigint, expires_at timestamptz
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa.put_out(put_document.receiver, 'document', put_document.about,
        jsonb_build_object(
            'document', convert_from(r.document, 'UTF8'),
            'proposal', put_document.proposal,
            'expires_at_ms', medusa.to_ms(put_document.expires_at),
            'signatures', coalesce((
                SELECT jsonb_object_agg(s.party, encode(s.signature, 'hex'))
                FROM medusa.contract_signature AS s WHERE s.revision = r.revision), '{}')))
    FROM medusa.contract_revision AS r WHERE r.revision = put_document.revision
$$;
COMMENT ON FUNCTION medusa.put_document(text, text, text, bigint, timestamptz) IS
    'Tell a partner a revision with the signatures that are here; expires_at is its proposal''s.';

CREATE FUNCTION medusa.tell_agreements(contract text, receiver text, from_number bigint)
RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa.put_document(a.revision, tell_agreements.receiver, 'agreement/' || a.revision,
        NULL, NULL)
    FROM (
        SELECT a.revision, a.number FROM medusa.contract_agreement AS a
        WHERE a.contract = tell_agreements.contract
            AND a.number >= tell_agreements.from_number
        ORDER BY a.number LIMIT 32
    ) AS a ORDER BY a.number
$$;
COMMENT ON FUNCTION medusa.tell_agreements(text, text, bigint) IS
    'Tell a partner again what was agreed from a number on: it does not have it, or not yet.';

CREATE FUNCTION medusa.end_proposal(proposal medusa.contract_proposal, state text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision;
    here  text := medusa.here();
    other text;
BEGIN
    UPDATE medusa.contract_proposal AS p SET state = end_proposal.state,
        ended_at = clock_timestamp()
    WHERE p.proposal_id = proposal.proposal_id;
    PERFORM medusa.write_audit(end_proposal.state, proposal.contract,
        to_jsonb(proposal.revision), NULL);
    IF end_proposal.state = 'agreed' OR EXISTS (
        SELECT FROM medusa.contract_agreement AS a JOIN medusa.contract_revision AS r
            ON (r.contract, r.number) = (a.contract, a.number)
        WHERE r.revision = proposal.revision)
    THEN
        RETURN;  -- the agreement tells it
    END IF;
    SELECT * INTO terms FROM medusa.contract_revision AS r WHERE r.revision = proposal.revision;
    other := CASE here WHEN terms.payer THEN terms.provider ELSE terms.payer END;
    IF proposal.proposed_by = here THEN
        DELETE FROM medusa.outbox AS o
        WHERE o.about = 'proposal/' || proposal.proposal_id AND o.nonce IS NULL;
        IF EXISTS (
            SELECT FROM medusa.outbox AS o WHERE o.about = 'proposal/' || proposal.proposal_id)
        THEN
            PERFORM medusa.put_out(other, 'withdrawal', 'withdrawal/' || proposal.proposal_id,
                jsonb_build_object('contract', proposal.contract, 'revision', proposal.revision,
                    'proposal', proposal.proposal_id));
        ELSE  -- it was never sent
            UPDATE medusa.contract_proposal AS p SET let_go_at = clock_timestamp()
            WHERE p.proposal_id = proposal.proposal_id;
        END IF;
    ELSIF here = terms.payer THEN
        PERFORM medusa.put_out(other, 'let_go', 'let_go/' || proposal.proposal_id,
            jsonb_build_object('contract', proposal.contract, 'revision', proposal.revision,
                'proposal', proposal.told_as));
    END IF;
END $$;
COMMENT ON FUNCTION medusa.end_proposal(medusa.contract_proposal, text) IS
    'A proposal is open no more; the partner is told, who signed it or might.';

CREATE FUNCTION medusa.claim_subjects(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other  text;
    agreed medusa.contract_revision := medusa.agreed_revision(contract);
    ends   timestamptz := medusa.ends_at(contract);
BEGIN
    DELETE FROM medusa.contract_claim AS c WHERE c.contract = claim_subjects.contract;
    INSERT INTO medusa.contract_claim (contract, subject, kind, payer, provider, validity)
    WITH counted AS (
        SELECT agreed.*
        UNION ALL
        (SELECT r.* FROM medusa.contract_activation AS v
        JOIN medusa.contract_revision AS r ON r.revision = v.revision
        WHERE v.contract = claim_subjects.contract AND v.revision <> agreed.revision
            AND NOT EXISTS (
                SELECT FROM medusa.contract_activation AS n WHERE n.revision = agreed.revision)
        ORDER BY v.number DESC LIMIT 1)
    ), spoken AS (
        SELECT tstzrange(min(lower(c.validity)), least(max(upper(c.validity)),
            CASE WHEN ends IS NOT NULL THEN greatest(ends, min(lower(c.validity))) END)) AS validity,
            bool_or(c.kind = 'movement' AND c.fragments IS NULL) AS is_any
        FROM counted AS c
    )
    SELECT claim_subjects.contract, s.subject, agreed.kind, agreed.payer, agreed.provider,
        spoken.validity
    FROM spoken, LATERAL (
        SELECT '*' AS subject WHERE spoken.is_any
        UNION SELECT f FROM counted AS c, unnest(c.fragments) AS f WHERE NOT spoken.is_any
        UNION SELECT c.stream FROM counted AS c WHERE c.stream IS NOT NULL
    ) AS s
    WHERE NOT isempty(spoken.validity);
EXCEPTION WHEN exclusion_violation THEN
    SELECT c.contract INTO other FROM medusa.contract_claim AS c
    WHERE c.contract <> claim_subjects.contract AND c.kind = agreed.kind
        AND (c.payer, c.provider) = (agreed.payer, agreed.provider)
        AND c.validity && agreed.validity LIMIT 1;
    RAISE EXCEPTION 'contract % is about what contract % is about at the same time: end one of '
        'them before', contract, coalesce(other, 'another') USING ERRCODE = 'MD002';
END $$;
COMMENT ON FUNCTION medusa.claim_subjects(text) IS
    'Note what a contract is about and when: what is agreed last, and what is still active; a '
    'conflict if another contract is about the same.';

CREATE FUNCTION medusa.check_overlap(terms medusa.contract_revision) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other medusa.contract_claim;
BEGIN
    SELECT c.* INTO other FROM medusa.contract_claim AS c
    WHERE c.contract <> terms.contract AND c.kind = terms.kind
        AND (c.payer, c.provider) = (terms.payer, terms.provider) AND c.validity && terms.validity
        AND (c.subject = '*' OR c.subject = terms.stream OR terms.kind = 'movement'
            AND (terms.fragments IS NULL OR c.subject = ANY (terms.fragments)))
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

CREATE FUNCTION medusa.with_number(
    terms medusa.contract_revision, number bigint, supersedes text
) RETURNS medusa.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    terms.number := with_number.number;
    terms.supersedes := with_number.supersedes;
    terms.document := medusa.contract_document(terms);
    terms.revision := encode(sha256(terms.document), 'hex');
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa.with_number(medusa.contract_revision, bigint, text) IS
    'These terms as a revision of that number.';

CREATE FUNCTION medusa.propose(
    given medusa.contract_revision, expires_at timestamptz, because text
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa.contract_revision := given;
    agreed medusa.contract_revision;
    own    medusa.contract_proposal;
    here   text := medusa.here();
    other  text;
    ends   timestamptz;
BEGIN
    -- 1 Whose contract, and what is agreed of it?
    PERFORM medusa.lock_contract(terms.contract);
    IF (here IN (terms.payer, terms.provider)) IS NOT TRUE THEN
        RAISE EXCEPTION 'this is the home of %, no party of contract %: let its payer or its '
            'provider edit it', here, terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF medusa.key_of(here) IS NULL THEN
        RAISE EXCEPTION '% has no key to sign with yet: run medusa apply', here
            USING ERRCODE = 'MD001';
    END IF;
    agreed := medusa.agreed_revision(terms.contract);
    ends := least(medusa.ends_at(terms.contract), upper(agreed.validity));
    IF ends <= clock_timestamp() OR medusa.ends_at(terms.contract) IS NOT NULL THEN
        RAISE EXCEPTION 'contract % ends at %: make another one under another name', terms.contract,
            ends USING ERRCODE = 'MD001';
    END IF;
    IF agreed.revision IS NOT NULL AND (agreed.kind, agreed.payer, agreed.provider)
        IS DISTINCT FROM (terms.kind, terms.payer, terms.provider)
    THEN
        RAISE EXCEPTION 'contract % is one of kind % between % (payer) and % (provider), which '
            'stays: make another one', terms.contract, agreed.kind, agreed.payer, agreed.provider
            USING ERRCODE = 'MD001';
    END IF;

    -- 2 Are the terms sound?
    terms := medusa.sorted_terms(terms);
    terms.number := coalesce(agreed.number, 0) + 1;
    terms.supersedes := agreed.revision;
    PERFORM medusa.check_terms(terms);
    IF upper(terms.validity) <= clock_timestamp() THEN
        RAISE EXCEPTION 'contract % would have ended at %: let it be valid longer', terms.contract,
            upper(terms.validity) USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.check_overlap(terms);
    other := CASE here WHEN terms.payer THEN terms.provider ELSE terms.payer END;
    IF medusa.key_of(other) IS NULL THEN
        RAISE EXCEPTION 'no key of participant % is known here: if it is one, call '
            'medusa_api.learn_key with the key that it shows', other USING ERRCODE = 'MD001';
    END IF;
    IF (expires_at > clock_timestamp() AND expires_at <= clock_timestamp() + interval '31 days')
        IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a proposal lasts up to 31 days from now, not until %', expires_at
            USING ERRCODE = 'MD001';
    END IF;

    -- 3 What does this home propose already?
    SELECT * INTO own FROM medusa.contract_proposal AS p
    WHERE p.contract = terms.contract AND p.proposed_by = here AND p.state = 'open';
    terms := medusa.with_number(terms, terms.number, terms.supersedes);
    IF own.revision = terms.revision THEN
        RETURN terms.revision;
    END IF;
    IF agreed.revision = (medusa.with_number(terms, agreed.number, agreed.supersedes)).revision THEN
        IF own.proposal_id IS NOT NULL THEN
            PERFORM medusa.end_proposal(own, 'withdrawn');
            PERFORM pg_notify('medusa_progress', '');
        END IF;
        RETURN agreed.revision;
    END IF;
    IF own.proposal_id IS NOT NULL THEN
        PERFORM medusa.end_proposal(own, 'superseded');
    END IF;

    -- 4 Propose it. The provider's goes out with its signature, which the program makes.
    terms.known_at := clock_timestamp();
    INSERT INTO medusa.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;
    INSERT INTO medusa.contract_proposal (contract, revision, proposed_by, because, expires_at)
    VALUES (terms.contract, terms.revision, here, propose.because, propose.expires_at)
    RETURNING * INTO own;
    PERFORM medusa.write_audit('proposed', terms.contract, to_jsonb(agreed.revision),
        convert_from(terms.document, 'UTF8')::jsonb || jsonb_build_object('revision', terms.revision));
    IF here = terms.payer OR EXISTS (
        SELECT FROM medusa.contract_signature AS s
        WHERE s.revision = terms.revision AND s.party = here)
    THEN
        PERFORM medusa.put_document(terms.revision, other, 'proposal/' || own.proposal_id,
            own.proposal_id, own.expires_at);
    END IF;
    PERFORM pg_notify('medusa_progress', '');
    RETURN terms.revision;
END $$;
COMMENT ON FUNCTION medusa.propose(medusa.contract_revision, timestamptz, text) IS
    'Propose terms to the partner, as the next revision of the contract, instead of what this home '
    'proposed before; returns the revision. What the partner proposes already is accepted so.';

CREATE FUNCTION medusa.propose_document(document bytea, lasts_ms bigint, because text)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa.contract_revision := medusa.terms_of(document);
    agreed medusa.contract_revision;
BEGIN
    PERFORM medusa.check_terms(terms);
    IF medusa.contract_document(terms) <> propose_document.document THEN
        RAISE EXCEPTION 'the document of contract % does not say its terms as Medusa writes them: '
            'its hash would not be theirs', terms.contract USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.lock_contract(terms.contract);
    agreed := medusa.agreed_revision(terms.contract);
    IF agreed.revision = terms.revision THEN
        RETURN terms.revision;
    END IF;
    IF (terms.number, terms.supersedes) IS DISTINCT FROM
        (coalesce(agreed.number, 0) + 1, agreed.revision)
    THEN
        RAISE EXCEPTION 'contract % is agreed to number % here, and number % does not follow that: '
            'read it again', terms.contract, coalesce(agreed.number, 0), terms.number
            USING ERRCODE = 'MD002';
    END IF;
    PERFORM medusa.check_length('a proposal', lasts_ms, 1);
    RETURN medusa.propose(terms, clock_timestamp()
        + least(lasts_ms, 31 * 86400000::bigint - 1000) * interval '1 ms', because);
END $$;
COMMENT ON FUNCTION medusa.propose_document(bytea, bigint, text) IS
    'Propose the terms of a document, which lasts so long; returns its revision. A conflict if it '
    'is not the next revision.';

CREATE FUNCTION medusa.agree(revision text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms    medusa.contract_revision;
    proposal medusa.contract_proposal;
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
    IF medusa.here() = terms.payer THEN
        PERFORM medusa.put_document(terms.revision, terms.provider, 'agreement/' || terms.revision,
            NULL, NULL);
    END IF;
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.agree(text) IS
    'Both signatures of a revision are here: it is agreed, all else that was proposed is past.';

CREATE FUNCTION medusa.sign_contract(revision text, signature bytea, public_key bytea)
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
    IF NOT FOUND THEN
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

CREATE FUNCTION medusa.end_envelope(envelope_id bigint) RETURNS medusa.inbox
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    envelope medusa.inbox;
BEGIN
    UPDATE medusa.inbox AS i SET state = 'handled', reason = NULL, ended_at = clock_timestamp()
    WHERE i.envelope_id = end_envelope.envelope_id AND i.state IN ('received', 'verified')
    RETURNING * INTO envelope;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'envelope % is handled already: look at the next', envelope_id
            USING ERRCODE = 'MD002';
    END IF;
    RETURN envelope;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the nonce has been used before: this is a replay' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.end_envelope(bigint) IS
    'An envelope is handled, in the transaction that does what it says; its nonce counts once.';

CREATE FUNCTION medusa.note_signature(revision text, party text, signature bytea) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.contract_signature (revision, party, signature, public_key)
    VALUES (note_signature.revision, note_signature.party, note_signature.signature,
        medusa.key_of(note_signature.party))
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa.note_signature(text, text, bytea) IS
    'Keep a signature that was verified with the key that is known here.';

CREATE FUNCTION medusa.take_document(
    envelope_id bigint, document bytea, payer_signature bytea, provider_signature bytea,
    proposal_told bigint, expires_at_ms bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
    terms    medusa.contract_revision := medusa.terms_of(document);
    agreed   medusa.contract_revision;
    proposal medusa.contract_proposal;
    here     text := medusa.here();
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
    IF agreed.revision IS NOT NULL AND (agreed.kind, agreed.payer, agreed.provider)
        IS DISTINCT FROM (terms.kind, terms.payer, terms.provider)
    THEN
        RAISE EXCEPTION 'contract % is one of kind % between % (payer) and % (provider) here',
            terms.contract, agreed.kind, agreed.payer, agreed.provider USING ERRCODE = 'MD001';
    END IF;

    -- 2 What is agreed already is told again to who does not have it, and asked for if it is lacking.
    IF EXISTS (SELECT FROM medusa.contract_agreement AS a WHERE a.revision = terms.revision) THEN
        IF payer_signature IS NULL OR provider_signature IS NULL THEN
            PERFORM medusa.tell_agreements(terms.contract, envelope.sender, terms.number);
        END IF;
        RETURN 'agreed before';
    END IF;
    IF terms.number <= agreed.number THEN
        IF payer_signature IS NOT NULL AND provider_signature IS NOT NULL THEN
            RAISE EXCEPTION 'number % of contract % is agreed otherwise here, as %: call the '
                'partner',
                terms.number, terms.contract, (
                    SELECT a.revision FROM medusa.contract_agreement AS a
                    WHERE (a.contract, a.number) = (terms.contract, terms.number))
                USING ERRCODE = 'MD001';
        END IF;
        PERFORM medusa.tell_agreements(terms.contract, envelope.sender, terms.number);
        RETURN 'agreed otherwise';
    END IF;
    IF (terms.number, terms.supersedes) IS DISTINCT FROM
        (coalesce(agreed.number, 0) + 1, agreed.revision)
    THEN
        IF terms.number = agreed.number + 1 THEN
            RAISE EXCEPTION 'number % of contract % supersedes another revision than the one that '
                'is agreed here: call the partner', terms.number, terms.contract
                USING ERRCODE = 'MD001';
        END IF;
        PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || terms.contract,
            jsonb_build_object('contract', terms.contract,
                'number', coalesce(agreed.number, 0) + 1));
        RETURN 'what comes before is asked for';
    END IF;
    INSERT INTO medusa.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;

    -- 3 Both have signed.
    IF payer_signature IS NOT NULL AND provider_signature IS NOT NULL THEN
        IF here = terms.provider AND EXISTS (
            SELECT FROM medusa.contract_proposal AS p
            WHERE p.revision = terms.revision AND p.proposed_by = here)
            AND NOT EXISTS (
                SELECT FROM medusa.contract_proposal AS p
                WHERE p.revision = terms.revision AND p.proposed_by = here
                    AND p.let_go_at IS NULL
                    AND p.expires_at + interval '7 days' > clock_timestamp())
        THEN
            RAISE EXCEPTION 'number % of contract % was taken back, and % has said that it knows: '
                'it comes too late', terms.number, terms.contract, envelope.sender
                USING ERRCODE = 'MD001';
        END IF;
        PERFORM medusa.note_signature(terms.revision, terms.payer, payer_signature);
        PERFORM medusa.note_signature(terms.revision, terms.provider, provider_signature);
        PERFORM medusa.agree(terms.revision);
        RETURN 'agreed';
    END IF;

    -- 4 A proposal; the provider's is signed, the payer signs last.
    IF envelope.sender = terms.provider AND provider_signature IS NULL THEN
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
    IF provider_signature IS NOT NULL AND envelope.sender = terms.provider THEN
        PERFORM medusa.note_signature(terms.revision, terms.provider, provider_signature);
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
COMMENT ON FUNCTION medusa.take_document(bigint, bytea, bytea, bytea, bigint, bigint) IS
    'Bring what a partner''s envelope says about a contract: a proposal, or both signatures. The '
    'envelope and the signatures given have been verified; NULL: there is none. What came of it.';

CREATE FUNCTION medusa.contract_with(contract text, sender text) RETURNS medusa.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision;
BEGIN
    SELECT r.* INTO terms FROM medusa.contract_revision AS r
    WHERE r.contract = contract_with.contract ORDER BY r.number DESC LIMIT 1;
    IF NOT FOUND OR (sender IN (terms.payer, terms.provider)) IS NOT TRUE THEN
        RAISE EXCEPTION 'there is no contract % with % here', left(contract, 80), sender
            USING ERRCODE = 'MD001';
    END IF;
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa.contract_with(text, text) IS
    'Any revision of a contract with a partner; refused if there is none.';

CREATE FUNCTION medusa.take_withdrawal(
    envelope_id bigint, contract text, revision text, proposal_told bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
    proposal medusa.contract_proposal;
    terms    medusa.contract_revision;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    terms := medusa.contract_with(contract, envelope.sender);
    IF EXISTS (
        SELECT FROM medusa.contract_agreement AS a WHERE a.revision = take_withdrawal.revision)
    THEN
        PERFORM medusa.tell_agreements(contract, envelope.sender, (
            SELECT a.number FROM medusa.contract_agreement AS a
            WHERE a.revision = take_withdrawal.revision));
        RETURN 'agreed before it came';
    END IF;
    SELECT * INTO proposal FROM medusa.contract_proposal AS p
    WHERE p.revision = take_withdrawal.revision AND p.proposed_by = envelope.sender
        AND p.contract = take_withdrawal.contract AND p.told_as = proposal_told
    ORDER BY p.proposal_id DESC LIMIT 1;
    IF proposal.state = 'open' THEN
        PERFORM medusa.end_proposal(proposal, 'withdrawn');
        PERFORM pg_notify('medusa_progress', '');
    ELSIF medusa.here() = terms.payer THEN
        PERFORM medusa.put_out(envelope.sender, 'let_go', 'let_go/told/' || proposal_told,
            jsonb_build_object('contract', contract, 'revision', take_withdrawal.revision,
                'proposal', proposal_told));
    END IF;
    RETURN 'withdrawn';
END $$;
COMMENT ON FUNCTION medusa.take_withdrawal(bigint, text, text, bigint) IS
    'A partner takes back what it proposed: gone, or agreed before, which it is told.';

CREATE FUNCTION medusa.take_let_go(
    envelope_id bigint, contract text, revision text, proposal_told bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    PERFORM medusa.contract_with(contract, envelope.sender);
    UPDATE medusa.contract_proposal AS p SET let_go_at = clock_timestamp()
    WHERE p.contract = take_let_go.contract AND p.revision = take_let_go.revision
        AND p.proposal_id = proposal_told AND p.proposed_by = medusa.here()
        AND p.state <> 'open' AND p.let_go_at IS NULL;
    RETURN 'let go';
END $$;
COMMENT ON FUNCTION medusa.take_let_go(bigint, text, text, bigint) IS
    'The payer says that it will not sign what this home took back.';

CREATE FUNCTION medusa.take_want(envelope_id bigint, contract text, number bigint) RETURNS text
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

CREATE FUNCTION medusa.note_notice(contract text, given_by text, told_by text, ends_at timestamptz)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before   timestamptz := medusa.ends_at(contract);
    proposal medusa.contract_proposal;
BEGIN
    INSERT INTO medusa.contract_notice (contract, given_by, told_by, ends_at)
    VALUES (note_notice.contract, note_notice.given_by, note_notice.told_by, note_notice.ends_at);
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
COMMENT ON FUNCTION medusa.note_notice(text, text, text, timestamptz) IS
    'A contract ends: what was proposed for it is past.';

CREATE FUNCTION medusa.give_notice(contract text) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    agreed medusa.contract_revision;
    here   text := medusa.here();
    ends   timestamptz;
BEGIN
    PERFORM medusa.lock_contract(contract);
    agreed := medusa.agreed_revision(contract);
    IF agreed.revision IS NULL THEN
        RAISE EXCEPTION 'contract % is not agreed: withdraw what is proposed', contract
            USING ERRCODE = 'MD001';
    END IF;
    ends := medusa.ends_at(contract);
    IF ends IS NOT NULL THEN
        RAISE EXCEPTION 'contract % ends at % by notice already: wait for that', contract, ends
            USING ERRCODE = 'MD001';
    END IF;
    IF agreed.notice_ms > medusa.to_ms(upper(agreed.validity)) - medusa.to_ms(clock_timestamp())
    THEN
        RAISE EXCEPTION 'contract % ends at %, before its notice of % ms has run: wait for that',
            contract, upper(agreed.validity), agreed.notice_ms USING ERRCODE = 'MD001';
    END IF;
    ends := medusa.at_ms(medusa.to_ms(clock_timestamp()) + agreed.notice_ms);
    PERFORM medusa.note_notice(contract, here, here, ends);
    PERFORM medusa.put_out(CASE here WHEN agreed.payer THEN agreed.provider ELSE agreed.payer END,
        'notice', 'notice/' || contract, jsonb_build_object('contract', contract, 'given_by', here,
        'ends_at_ms', medusa.to_ms(ends)));
    RETURN ends;
END $$;
COMMENT ON FUNCTION medusa.give_notice(text) IS
    'End a contract: its notice from now on, or from when the partner hears of it, whichever is '
    'later. When it ends, as far as is known.';

CREATE FUNCTION medusa.take_notice(
    envelope_id bigint, contract text, given_by text, ends_at_ms bigint
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa.inbox;
    agreed   medusa.contract_revision;
    here     text := medusa.here();
    known    timestamptz;
    least_ms bigint;
    ends_ms  bigint;
BEGIN
    PERFORM medusa.lock_contract(contract);
    envelope := medusa.end_envelope(envelope_id);
    PERFORM medusa.contract_with(contract, envelope.sender);
    agreed := medusa.agreed_revision(contract);
    IF agreed.revision IS NULL THEN
        PERFORM medusa.put_out(envelope.sender, 'want', 'want/' || contract,
            jsonb_build_object('contract', contract, 'number', 1));
        RETURN 'what it ends is asked for';
    END IF;
    known := medusa.ends_at(contract);
    least_ms := medusa.to_ms(envelope.received_at) + agreed.notice_ms;
    IF given_by = envelope.sender THEN
        ends_ms := greatest(ends_at_ms, least_ms);
    ELSIF given_by = here AND EXISTS (
        SELECT FROM medusa.contract_notice AS n
        WHERE n.contract = take_notice.contract AND n.given_by = here)
    THEN
        -- Its clock may go an hour before this home's.
        ends_ms := least(ends_at_ms, least_ms + 3600000);
    END IF;
    IF (ends_ms BETWEEN 0 AND 9007199254740991) IS NOT TRUE THEN
        RAISE EXCEPTION 'nobody has given notice of contract % as % says', contract, envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    IF known IS NULL OR medusa.at_ms(ends_ms) > known THEN
        PERFORM medusa.note_notice(contract, given_by, envelope.sender, medusa.at_ms(ends_ms));
    END IF;
    IF given_by = envelope.sender THEN
        PERFORM medusa.put_out(envelope.sender, 'notice', 'notice/' || contract || '/heard',
            jsonb_build_object('contract', contract, 'given_by', given_by,
                'ends_at_ms', medusa.to_ms(medusa.ends_at(contract))));
    END IF;
    RETURN 'noted';
END $$;
COMMENT ON FUNCTION medusa.take_notice(bigint, text, text, bigint) IS
    'A partner ends a contract, or says when the notice that this home gave it ends.';

CREATE FUNCTION medusa.expire_proposals() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    proposal medusa.contract_proposal;
    ended    integer := 0;
    now_is   timestamptz := clock_timestamp();
BEGIN
    -- Locks of contracts come before the audit's.
    PERFORM FROM medusa.contract_order AS o
    WHERE o.contract IN (
        SELECT p.contract FROM medusa.contract_proposal AS p
        WHERE p.state = 'open' AND p.expires_at <= now_is)
    ORDER BY o.contract FOR UPDATE;
    FOR proposal IN SELECT * FROM medusa.contract_proposal AS p
        WHERE p.state = 'open' AND p.expires_at <= now_is ORDER BY p.contract, p.proposal_id
    LOOP
        PERFORM medusa.end_proposal(proposal, 'expired');
        ended := ended + 1;
    END LOOP;
    RETURN ended;
END $$;
COMMENT ON FUNCTION medusa.expire_proposals() IS
    'Proposals whose time has passed are open no more; how many.';

CREATE FUNCTION medusa.open_round(round_ms bigint, because text DEFAULT 'the time has passed')
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    last   medusa.round;
    now_is timestamptz;
    agreed record;
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
    -- Locks of contracts come before the audit's.
    PERFORM FROM medusa.contract_order AS o
    WHERE o.contract IN (
        SELECT a.contract FROM medusa.contract_agreement AS a
        WHERE NOT EXISTS (
            SELECT FROM medusa.contract_activation AS v WHERE v.revision = a.revision))
    ORDER BY o.contract FOR UPDATE;
    FOR agreed IN
        SELECT a.revision, a.contract, a.number FROM medusa.contract_agreement AS a
        WHERE a.agreed_at <= now_is AND NOT EXISTS (
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
    'on.';

CREATE FUNCTION medusa.take_envelopes(envelopes jsonb) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given   record;
    answers text[] := '{}';
    answer  text;
    whole   bytea;
BEGIN
    IF pg_column_size(envelopes) > 16777216 OR jsonb_typeof(envelopes) IS DISTINCT FROM 'array'
        OR jsonb_array_length(envelopes) > 64
    THEN
        RAISE EXCEPTION 'envelopes come in a list of 64 at most, 16 MiB in all: send fewer'
            USING ERRCODE = 'MD001';
    END IF;
    FOR given IN
        SELECT w.*, decode(w.body, 'base64') AS body_bytes,
            decode(w.signature, 'hex') AS signature_bytes
        FROM jsonb_to_recordset(envelopes) AS w (kind text, sender text, receiver text, nonce text,
            sent_at_ms bigint, expires_at_ms bigint, body text, signature text)
    LOOP
        answer := CASE
            WHEN medusa.is_name(given.sender) IS NOT TRUE
                OR medusa.is_name(given.receiver) IS NOT TRUE
                OR (given.kind ~ '^[a-z][a-z_]{0,30}$') IS NOT TRUE
                OR (given.nonce ~ '^[0-9a-f]{32}$') IS NOT TRUE
                OR given.sent_at_ms IS NULL OR given.expires_at_ms IS NULL
                OR given.body_bytes IS NULL
                OR (octet_length(given.signature_bytes) = 64) IS NOT TRUE
                THEN 'refused: this is no envelope'
            WHEN (SELECT count(*) FROM medusa.inbox AS i
                WHERE i.state = 'received' AND i.sender = given.sender) >= 256
                OR (SELECT count(*) >= 10000 OR sum(octet_length(i.body)) > 67108864
                    FROM medusa.inbox AS i
                    WHERE i.state <> 'refused' AND i.sender = given.sender)
                OR (SELECT count(*) FROM medusa.inbox AS i WHERE i.state = 'received') >= 4096
                THEN 'full: send it again later'
            WHEN octet_length(given.body_bytes) > 98304
                THEN 'refused: it is longer than 96 KiB'
            ELSE 'taken' END;
        answers := answers || answer;
        CONTINUE WHEN answer IN ('refused: this is no envelope', 'full: send it again later');
        whole := sha256(convert_to(jsonb_build_array(given.kind, given.sender, given.receiver,
            given.nonce, given.sent_at_ms, given.expires_at_ms,
            encode(sha256(given.body_bytes), 'hex'), given.signature)::text, 'UTF8'));
        INSERT INTO medusa.inbox AS i (sender, receiver, kind, nonce, sent_at_ms, expires_at_ms,
            body, signature, hash, state, reason, ended_at)
        VALUES (given.sender, given.receiver, given.kind, given.nonce, given.sent_at_ms,
            given.expires_at_ms, CASE answer WHEN 'taken' THEN given.body_bytes ELSE '' END,
            given.signature_bytes, whole, CASE answer WHEN 'taken' THEN 'received' ELSE 'refused' END,
            CASE WHEN answer <> 'taken' THEN 'it is longer than 96 KiB' END,
            CASE WHEN answer <> 'taken' THEN clock_timestamp() END)
        ON CONFLICT (hash) DO UPDATE SET repeats = i.repeats + 1;
    END LOOP;
    PERFORM medusa.tidy_inbox();
    PERFORM pg_notify('medusa_progress', '');
    RETURN answers;
END $$;
COMMENT ON FUNCTION medusa.take_envelopes(jsonb) IS
    'For partners: put envelopes into the inbox, as they are, and no more: 64 at a time, 96 KiB '
    'each, 256 of a sender waiting, and 10,000 or 64 MiB of it kept until they are stale. An '
    'answer to each: taken (also if it came before), refused or full.';

CREATE FUNCTION medusa.tidy_inbox() RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    DELETE FROM medusa.inbox AS i WHERE i.state = 'refused' AND i.envelope_id <= (
        SELECT o.envelope_id FROM medusa.inbox AS o WHERE o.state = 'refused'
        ORDER BY o.envelope_id DESC OFFSET 1000 LIMIT 1);
    DELETE FROM medusa.inbox AS i
    WHERE i.state = 'handled' AND i.expires_at_ms < medusa.to_ms(clock_timestamp());
$$;
COMMENT ON FUNCTION medusa.tidy_inbox() IS
    'Keep the last 1,000 refused envelopes, and what would count again if it came again.';

CREATE FUNCTION medusa.verify_envelope(envelope_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.inbox AS i SET state = 'verified'
    WHERE i.envelope_id = verify_envelope.envelope_id AND i.state = 'received';
    RETURN FOUND;
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'the nonce has been used before: this is a replay' USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.verify_envelope(bigint) IS
    'An envelope is its sender''s, and waits to be handled; its nonce counts once.';

CREATE FUNCTION medusa.handle_envelope(envelope_id bigint) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.inbox AS i SET state = 'handled', ended_at = clock_timestamp()
    WHERE i.envelope_id = handle_envelope.envelope_id AND i.state = 'verified';
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa.handle_envelope(bigint) IS
    'A verified envelope has been handled; false if it was before.';

CREATE FUNCTION medusa.refuse_envelope(envelope_id bigint, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.inbox AS i SET state = 'refused', reason = left(refuse_envelope.reason, 500),
        ended_at = clock_timestamp()
    WHERE i.envelope_id = refuse_envelope.envelope_id AND i.state IN ('received', 'verified');
    IF FOUND THEN
        PERFORM medusa.tidy_inbox();
        RETURN true;
    END IF;
    RETURN false;
END $$;
COMMENT ON FUNCTION medusa.refuse_envelope(bigint, text) IS
    'An envelope counts for nothing, and why; false if it has been handled.';

CREATE FUNCTION medusa.keep_envelope(envelope_id bigint, reason text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS $$
    UPDATE medusa.inbox AS i SET reason = left(keep_envelope.reason, 500)
    WHERE i.envelope_id = keep_envelope.envelope_id AND i.state = 'received'
        AND i.reason IS DISTINCT FROM left(keep_envelope.reason, 500)
$$;
COMMENT ON FUNCTION medusa.keep_envelope(bigint, text) IS
    'An envelope cannot be handled yet, and why; it is tried again until it is stale.';

CREATE FUNCTION medusa.seal_message(
    message_id bigint, nonce text, sent_at_ms bigint, expires_at_ms bigint, signature bytea
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.outbox AS o SET nonce = seal_message.nonce, sent_at_ms = seal_message.sent_at_ms,
        expires_at_ms = seal_message.expires_at_ms, signature = seal_message.signature
    WHERE o.message_id = seal_message.message_id AND o.acknowledged_at IS NULL
        AND (o.nonce IS NULL OR o.expires_at_ms < medusa.to_ms(clock_timestamp()) + 60000);
END $$;
COMMENT ON FUNCTION medusa.seal_message(bigint, text, bigint, bigint, bytea) IS
    'A message is signed as an envelope; anew when its time has passed before it arrived.';

CREATE FUNCTION medusa.acknowledge_message(message_id bigint, problem text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    UPDATE medusa.outbox AS o SET problem = left(acknowledge_message.problem, 500),
        acknowledged_at = CASE WHEN acknowledge_message.problem IS NULL THEN clock_timestamp() END
    WHERE o.message_id = acknowledge_message.message_id AND o.acknowledged_at IS NULL
        AND (acknowledge_message.problem IS NULL OR o.problem IS DISTINCT FROM
            left(acknowledge_message.problem, 500));
    DELETE FROM medusa.outbox AS o WHERE o.acknowledged_at < clock_timestamp() - interval '62 days';
END $$;
COMMENT ON FUNCTION medusa.acknowledge_message(bigint, text) IS
    'A message lies in the partner''s inbox (problem NULL), or why it does not. What is long past '
    'goes.';

CREATE FUNCTION medusa.put_message(receiver text, kind text, about text, body bytea) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
#variable_conflict use_column
DECLARE
    found bigint;
BEGIN
    PERFORM medusa.check_names(put_message.receiver);
    IF (put_message.kind ~ '^[a-z][a-z_]{0,30}$' AND octet_length(put_message.body) <= 98304
        AND char_length(put_message.about) BETWEEN 1 AND 200) IS NOT TRUE
        OR put_message.kind IN ('document', 'withdrawal', 'let_go', 'want', 'notice')
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

CREATE FUNCTION medusa.tell_agreement(contract text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    agreed medusa.contract_revision := medusa.agreed_revision(contract);
BEGIN
    IF agreed.revision IS NOT NULL THEN
        PERFORM medusa.tell_agreements(contract, CASE medusa.here() WHEN agreed.payer
            THEN agreed.provider ELSE agreed.payer END, agreed.number);
    END IF;
END $$;
COMMENT ON FUNCTION medusa.tell_agreement(text) IS
    'Send the agreed document to a partner that does not hold it yet.';

CREATE VIEW medusa_api.contract WITH (security_invoker = true) AS
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
    LEFT JOIN LATERAL (
        SELECT max(e.ends_at) AS ends_at FROM medusa.contract_notice AS e
        WHERE e.contract = c.contract) AS n ON true
    LEFT JOIN medusa.contract_proposal AS o ON o.contract = c.contract AND o.state = 'open'
        AND o.proposed_by <> h.participant;
COMMENT ON VIEW medusa_api.contract IS
    'This home''s copy of each contract, which its owner edits: what it proposes (state proposed), '
    'else what both agreed (agreed, in force from the next round on, or ended), else what a '
    'partner asks for (asked). UPDATE proposes, INSERT proposes a new one, DELETE withdraws or '
    'gives notice.';

CREATE VIEW medusa_api.contract_in_force WITH (security_invoker = true) AS
    SELECT r.contract, v.round, r.number, r.revision, r.document, r.kind, r.payer, r.provider,
        r.currency, tstzrange(lower(r.validity), least(upper(r.validity), n.ends_at)) AS validity
    FROM medusa.contract_activation AS v
    JOIN medusa.contract_revision AS r ON r.revision = v.revision
    LEFT JOIN LATERAL (
        SELECT max(e.ends_at) AS ends_at FROM medusa.contract_notice AS e
        WHERE e.contract = r.contract) AS n ON true
    WHERE NOT EXISTS (
        SELECT FROM medusa.contract_activation AS later
        WHERE later.contract = v.contract AND later.number > v.number)
        AND lower(r.validity) <= clock_timestamp()
        AND least(upper(r.validity), n.ends_at) > clock_timestamp();
COMMENT ON VIEW medusa_api.contract_in_force IS
    'What contracts say that are active and valid now, and from which round on.';

CREATE VIEW medusa_api.contract_proposals WITH (security_invoker = true) AS
    SELECT p.contract, p.proposal_id, p.proposed_by, p.state, r.number, p.made_at, p.expires_at,
        p.ended_at, p.who, p.because, (
            SELECT string_agg(format('%s %s -> %s', f.key, coalesce(b.value, 'nothing'),
                coalesce(f.value, 'nothing')), ', ' ORDER BY f.key)
            FROM jsonb_each_text(to_jsonb(r) - ARRAY['revision', 'document', 'number', 'supersedes',
                'known_at']) AS f (key, value)
            LEFT JOIN jsonb_each_text(to_jsonb(s)) AS b (key, value) ON b.key = f.key
            WHERE s.revision IS NOT NULL AND f.value IS DISTINCT FROM b.value) AS changes,
        ARRAY(SELECT g.party FROM medusa.contract_signature AS g WHERE g.revision = p.revision
            ORDER BY g.party) AS signed_by, p.revision
    FROM medusa.contract_proposal AS p
    JOIN medusa.contract_revision AS r ON r.revision = p.revision
    LEFT JOIN medusa.contract_revision AS s ON s.revision = r.supersedes;
COMMENT ON VIEW medusa_api.contract_proposals IS
    'Edits of either party, what they change, and what became of them.';

CREATE VIEW medusa_api.contract_history WITH (security_invoker = true) AS
    SELECT r.contract, r.number, a.agreed_at, v.round, v.activated_at, r.revision, r.document,
        ARRAY(SELECT g.party FROM medusa.contract_signature AS g WHERE g.revision = r.revision
            ORDER BY g.party) AS signed_by
    FROM medusa.contract_agreement AS a
    JOIN medusa.contract_revision AS r ON r.revision = a.revision
    LEFT JOIN medusa.contract_activation AS v ON v.revision = a.revision;
COMMENT ON VIEW medusa_api.contract_history IS
    'Every agreed revision of every contract, and from which round on it was active here.';

CREATE VIEW medusa_api.contract_notices WITH (security_invoker = true) AS
    SELECT contract, given_by, told_by, ends_at, noted_at FROM medusa.contract_notice;
COMMENT ON VIEW medusa_api.contract_notices IS 'Who ends which contract; the latest time counts.';

CREATE VIEW medusa_api.party_keys WITH (security_invoker = true) AS
    SELECT k.participant, encode(k.public_key, 'hex') AS public_key, k.learned_at, k.learned_by,
        k.because, NOT EXISTS (
            SELECT FROM medusa.party_key AS n
            WHERE n.participant = k.participant AND n.key_id > k.key_id) AS counts
    FROM medusa.party_key AS k;
COMMENT ON VIEW medusa_api.party_keys IS
    'By which keys this home knows itself and its partners, now and before.';

CREATE VIEW medusa_api.rounds WITH (security_invoker = true) AS
    SELECT number, opened_at, opened_by, because FROM medusa.round;
COMMENT ON VIEW medusa_api.rounds IS 'Rounds of this home.';

CREATE VIEW medusa_api.inbox WITH (security_invoker = true) AS
    SELECT envelope_id, sender, kind, state, reason, repeats, received_at, ended_at,
        octet_length(body) AS bytes, nonce
    FROM medusa.inbox;
COMMENT ON VIEW medusa_api.inbox IS
    'Envelopes that came: received, verified, handled, or refused and why.';

CREATE VIEW medusa_api.outbox WITH (security_invoker = true) AS
    SELECT message_id, receiver, kind, about, put_at, acknowledged_at, problem FROM medusa.outbox;
COMMENT ON VIEW medusa_api.outbox IS 'What partners are told, and whether they have it.';

CREATE VIEW medusa_api.audit WITH (security_invoker = true) AS
    SELECT audit_id, at, who, what, subject, before, after FROM medusa.audit;
COMMENT ON VIEW medusa_api.audit IS
    'What was done about agreements; medusa.verify_audit() says whether it is whole.';

CREATE FUNCTION medusa.edit_contract() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa.contract_revision;
    stands record;
BEGIN
    -- The row was read before the lock: what another edit has made of it since is not passed over.
    PERFORM medusa.lock_contract(CASE TG_OP WHEN 'INSERT' THEN NEW.contract ELSE OLD.contract END);
    SELECT c.revision, c.state, c.partner_proposes, c.active_revision INTO stands
    FROM medusa_api.contract AS c
    WHERE c.contract = CASE TG_OP WHEN 'INSERT' THEN NEW.contract ELSE OLD.contract END;
    IF TG_OP = 'INSERT' AND stands.state <> 'asked' THEN
        RAISE EXCEPTION 'contract % is there already (%): UPDATE it, or choose another name',
            NEW.contract, stands.state USING ERRCODE = 'MD001';
    END IF;
    IF TG_OP <> 'INSERT' AND (stands.revision, stands.state, stands.partner_proposes)
        IS DISTINCT FROM (OLD.revision, OLD.state, OLD.partner_proposes)
    THEN
        RAISE EXCEPTION 'contract % was edited meanwhile: read it again', OLD.contract
            USING ERRCODE = 'MD002';
    END IF;
    IF TG_OP = 'DELETE' THEN
        PERFORM medusa.end_contract(OLD.contract);
        RETURN OLD;
    END IF;
    IF TG_OP = 'UPDATE' AND (NEW.contract, NEW.kind, NEW.payer, NEW.provider)
        IS DISTINCT FROM (OLD.contract, OLD.kind, OLD.payer, OLD.provider)
    THEN
        RAISE EXCEPTION 'contract % keeps its name, kind, payer and provider: make another one',
            OLD.contract USING ERRCODE = 'MD001';
    END IF;
    IF (NEW.state, NEW.number, NEW.ends_at, NEW.revision, NEW.active_revision, NEW.partner_proposes)
        IS DISTINCT FROM (OLD.state, OLD.number, OLD.ends_at, OLD.revision, OLD.active_revision,
            OLD.partner_proposes)
    THEN
        RAISE EXCEPTION 'state, number, ends_at, revision, active_revision and partner_proposes of '
            'contract % follow from what is agreed: edit its terms', NEW.contract
            USING ERRCODE = 'MD001';
    END IF;
    terms.contract := NEW.contract;
    terms.kind := NEW.kind;
    terms.payer := NEW.payer;
    terms.provider := NEW.provider;
    terms.currency := NEW.currency;
    terms.validity := NEW.validity;
    terms.settlement_ms := NEW.settlement_ms;
    terms.notice_ms := NEW.notice_ms;
    terms.price_low := NEW.price_low;
    terms.price_high := NEW.price_high;
    terms.price_step := NEW.price_step;
    terms.fragments := NEW.fragments;
    terms.load_max := NEW.load_max;
    terms.billed := NEW.billed;
    terms.recovery := NEW.recovery;
    terms.method := NEW.method;
    terms.replicas := NEW.replicas;
    terms.bound_ms := NEW.bound_ms;
    terms.penalty := NEW.penalty;
    terms.hold_ms_max := NEW.hold_ms_max;
    terms.stream := NEW.stream;
    terms.price := NEW.price;
    terms.per := NEW.per;
    terms.instead := NEW.instead;
    PERFORM medusa.propose(terms,
        CASE WHEN TG_OP = 'INSERT' OR NEW.expires_at IS DISTINCT FROM OLD.expires_at
            THEN coalesce(NEW.expires_at, clock_timestamp() + interval '7 days')
            ELSE clock_timestamp() + interval '7 days' END,
        'edited in SQL');
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.edit_contract() IS
    'What UPDATE, INSERT and DELETE of a contract mean: proposals, withdrawal, notice.';

CREATE FUNCTION medusa.end_contract(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    own medusa.contract_proposal;
BEGIN
    SELECT * INTO own FROM medusa.contract_proposal AS p
    WHERE p.contract = end_contract.contract AND p.proposed_by = medusa.here()
        AND p.state = 'open';
    IF FOUND THEN
        PERFORM medusa.end_proposal(own, 'withdrawn');
        PERFORM pg_notify('medusa_progress', '');
    ELSIF (medusa.agreed_revision(contract)).revision IS NOT NULL THEN
        PERFORM medusa.give_notice(contract);
    ELSE
        RAISE EXCEPTION 'contract % is what the partner asks for: leave it, and it expires',
            contract USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.end_contract(text) IS
    'Withdraw what this home proposes, or, if it proposes nothing, give notice of what is agreed.';

CREATE TRIGGER edit INSTEAD OF INSERT OR UPDATE OR DELETE ON medusa_api.contract
    FOR EACH ROW EXECUTE FUNCTION medusa.edit_contract();

CREATE FUNCTION medusa_api.accept_contract(contract text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    proposal medusa.contract_proposal;
    terms    medusa.contract_revision;
BEGIN
    PERFORM medusa.lock_contract(contract);
    SELECT * INTO proposal FROM medusa.contract_proposal AS p
    WHERE p.contract = accept_contract.contract AND p.proposed_by <> medusa.here()
        AND p.state = 'open' AND p.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the partner proposes nothing for contract % now: look at '
            'medusa_api.contract_proposals', contract USING ERRCODE = 'MD001';
    END IF;
    SELECT * INTO terms FROM medusa.contract_revision AS r WHERE r.revision = proposal.revision;
    RETURN medusa.propose(terms, proposal.expires_at, 'accepted in SQL');
END $$;
COMMENT ON FUNCTION medusa_api.accept_contract(text) IS
    'Propose what the partner proposes for a contract, and so accept it; returns the revision.';

CREATE FUNCTION medusa_api.withdraw_contract(contract text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    own medusa.contract_proposal;
BEGIN
    PERFORM medusa.lock_contract(contract);
    SELECT * INTO own FROM medusa.contract_proposal AS p
    WHERE p.contract = withdraw_contract.contract AND p.proposed_by = medusa.here()
        AND p.state = 'open';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'this home proposes nothing for contract %: to end what is agreed, DELETE '
            'it',
            contract USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.end_proposal(own, 'withdrawn');
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa_api.withdraw_contract(text) IS
    'Take back what this home proposes for a contract; what is agreed stays.';

ALTER TABLE medusa.contract_revision ENABLE ROW LEVEL SECURITY;
ALTER TABLE medusa.contract_proposal ENABLE ROW LEVEL SECURITY;
ALTER TABLE medusa.contract_signature ENABLE ROW LEVEL SECURITY;
CREATE POLICY agreed_for_all ON medusa.contract_revision FOR SELECT USING (EXISTS (
    SELECT FROM medusa.contract_agreement AS a WHERE a.revision = contract_revision.revision));
CREATE POLICY all_for_owner_and_job ON medusa.contract_revision FOR SELECT USING (
    current_user IN (current_database() || '_owner', current_database() || '_job'));
CREATE POLICY all_for_owner_and_job ON medusa.contract_proposal FOR SELECT USING (
    current_user IN (current_database() || '_owner', current_database() || '_job'));
CREATE POLICY agreed_for_all ON medusa.contract_signature FOR SELECT USING (EXISTS (
    SELECT FROM medusa.contract_agreement AS a WHERE a.revision = contract_signature.revision));
CREATE POLICY all_for_owner_and_job ON medusa.contract_signature FOR SELECT USING (
    current_user IN (current_database() || '_owner', current_database() || '_job'));
COMMENT ON POLICY agreed_for_all ON medusa.contract_revision IS
    'Who may look at contracts sees what is agreed.';
COMMENT ON POLICY agreed_for_all ON medusa.contract_signature IS
    'Who may look at contracts sees who signed what is agreed.';
COMMENT ON POLICY all_for_owner_and_job ON medusa.contract_revision IS
    'What is only proposed is the owner''s and its program''s to see.';
COMMENT ON POLICY all_for_owner_and_job ON medusa.contract_proposal IS
    'What is only proposed is the owner''s and its program''s to see.';
COMMENT ON POLICY all_for_owner_and_job ON medusa.contract_signature IS
    'What is only proposed is the owner''s and its program''s to see.';

REVOKE ALL ON ALL TABLES IN SCHEMA medusa, medusa_api FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA medusa, medusa_api FROM PUBLIC;

CREATE FUNCTION medusa.grant_all_to_owner() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text := current_database() || '_owner';
    name text;
BEGIN
    -- A home of one login has no other owner than the one of its tables.
    IF role = current_user OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN
        RETURN;
    END IF;
    EXECUTE format('GRANT USAGE ON SCHEMA medusa, medusa_api TO %I', role);
    EXECUTE format('GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA medusa, medusa_api TO %I', role);
    FOR name IN
        SELECT c.oid::regclass::text FROM pg_class AS c
        WHERE c.relnamespace = 'medusa'::regnamespace AND c.relkind = 'r'
            AND c.relname NOT IN ('party_key', 'contract_order', 'contract_revision',
                'contract_signature', 'contract_proposal', 'contract_agreement', 'contract_notice',
                'round', 'contract_activation', 'contract_claim', 'inbox', 'outbox', 'audit',
                'audit_head', 'schema_migration')
        ORDER BY 1
    LOOP
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON %s TO %I', name, role);
    END LOOP;
    EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA medusa, medusa_api TO %I', role);
    EXECUTE format('GRANT INSERT, UPDATE, DELETE ON medusa_api.contract TO %I', role);
END $$;
COMMENT ON FUNCTION medusa.grant_all_to_owner() IS
    'The owner logs in without owning a table: it may write what it could write before, within the '
    'laws, and of agreements the view medusa_api.contract alone.';
REVOKE ALL ON FUNCTION medusa.grant_all_to_owner() FROM PUBLIC;

CREATE FUNCTION medusa.grant_agreements_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text;
    role text;
BEGIN
    PERFORM medusa.grant_all_to_owner();
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
    'Jobs sign, send and take documents; the owner edits contracts; analysts and Airflow see what '
    'is agreed; a partner''s reader may put envelopes into the inbox, and sees nothing.';
REVOKE ALL ON FUNCTION medusa.grant_agreements_to_roles() FROM PUBLIC;
SELECT medusa.grant_agreements_to_roles();
