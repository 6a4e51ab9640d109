-- Agreements: contracts with partners and their signed documents.
--
-- A contract is one document; its SHA-256 is the revision. Each party keeps a copy in its own home
-- and edits it there: an edit is a proposal, the same edit by the other party accepts it. So that
-- two edits at once never make two agreements, the payer signs last: the provider's signature is an
-- offer, which it may take back until it hears of the payer's; the payer signs one revision of each
-- number. A revision is agreed in a home that holds both signatures, and active from its next round.
-- Signatures are made and verified by the participant's own program, before they come here.

CREATE TABLE medusa_market.party_key (
    key_id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    participant text COLLATE "C" NOT NULL,
    public_key  bytea NOT NULL,
    replaces    bigint REFERENCES medusa_market.party_key,
    because     text NOT NULL,
    learned_by  text NOT NULL DEFAULT session_user,
    learned_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    is_past     boolean NOT NULL DEFAULT false,
    is_succession boolean NOT NULL DEFAULT false,
    CONSTRAINT party_key_is_of_a_participant CHECK (medusa_market.is_name(participant)),
    CONSTRAINT party_key_has_32_bytes CHECK (octet_length(public_key) = 32),
    CONSTRAINT party_key_says_why CHECK (char_length(because) BETWEEN 1 AND 200)
);
COMMENT ON TABLE medusa_market.party_key IS
    'Ed25519 keys of this home and its partners; the newest of each counts, the older ones '
    'verify earlier signatures; insert-only.';
COMMENT ON COLUMN medusa_market.party_key.is_past IS
    'It was replaced before this home learned of it: it verifies earlier signatures only.';
COMMENT ON COLUMN medusa_market.party_key.replaces IS
    'The key before; it is replaced by the owner, or by a key that it has signed.';
COMMENT ON COLUMN medusa_market.party_key.is_succession IS
    'The key before has signed this one: for 7 days both count.';
CREATE INDEX party_key_of_participant ON medusa_market.party_key (participant, key_id);
COMMENT ON INDEX medusa_market.party_key_of_participant IS 'The newest key of a participant.';

CREATE TABLE medusa_market.key_disowned (
    public_key  bytea PRIMARY KEY CHECK (octet_length(public_key) = 32),
    participant text COLLATE "C" NOT NULL,
    who         text NOT NULL DEFAULT session_user,
    disowned_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa_market.key_disowned IS
    'Keys that another party may have used: nothing under them counts any more; insert-only.';

CREATE TABLE medusa_market.contract_order (
    contract   text COLLATE "C" PRIMARY KEY CHECK (medusa_market.is_name(contract)),
    edits      bigint NOT NULL DEFAULT 0,
    brought_by text COLLATE "C"
);
COMMENT ON TABLE medusa_market.contract_order IS
    'A row per contract, changed by each edit and each document: one after the other, and none '
    'from an older snapshot.';
COMMENT ON COLUMN medusa_market.contract_order.brought_by IS
    'The partner that named it here first; NULL: this home.';
CREATE INDEX contract_order_brought ON medusa_market.contract_order (brought_by);
COMMENT ON INDEX medusa_market.contract_order_brought IS 'How many contracts a partner has named.';

CREATE TABLE medusa_market.contract_revision (
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
    boxes         text[] COLLATE "C",
    reads         text[] COLLATE "C",
    reference     text[] COLLATE "C",
    verify        numeric,
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
        WHEN 'movement' THEN num_nonnulls(price_low, price_high, price_step, load_max, recovery,
            method, replicas, penalty, hold_ms_max) = 9
            AND num_nonnulls(stream, price, per, instead, boxes) = 0
        WHEN 'content' THEN num_nonnulls(stream, price, per, recovery, method, replicas, penalty,
            hold_ms_max) = 8
            AND num_nonnulls(price_low, price_high, price_step, fragments, billed, reference,
                instead, reads, verify) = 0
            AND num_nonnulls(boxes, load_max) IN (0, 2)
        WHEN 'suggested' THEN num_nonnulls(stream, instead) = 2
            AND num_nonnulls(price_low, price_high, price_step, fragments, load_max, billed,
                reference, recovery, method, replicas, bound_ms, penalty, hold_ms_max, price, per,
                boxes, reads, verify) = 0
        ELSE false END),
    CONSTRAINT verify_is_a_share CHECK (verify BETWEEN 0 AND 1),
    CONSTRAINT prices_are_a_range CHECK (price_low > 0 AND price_low <= price_high
        AND price_step > 0 AND (price_high - price_low) % price_step = 0
        AND (price_high - price_low) / price_step <= 1000),
    CONSTRAINT promise_is_one CHECK (replicas > 0 AND hold_ms_max > 0
        AND coalesce(bound_ms > 0, true) AND penalty >= 0
        AND recovery IN ('gap', 'rollback', 'precise') AND method IN ('amnesia',
            'passive_standby', 'active_standby', 'upstream_backup'))
);
COMMENT ON TABLE medusa_market.contract_revision IS
    'The revisions of contracts, proposed or agreed; insert-only. The columns equal the '
    'document, which a trigger checks.';
COMMENT ON COLUMN medusa_market.contract_revision.revision IS 'SHA-256 of the document.';
COMMENT ON COLUMN medusa_market.contract_revision.document IS
    'The canonical bytes that both parties sign: medusa_core/market/documents.py.';
COMMENT ON COLUMN medusa_market.contract_revision.number IS
    'Counts the agreed revisions, from 1 on.';
COMMENT ON COLUMN medusa_market.contract_revision.supersedes IS
    'The revision before; NULL of the first.';
COMMENT ON COLUMN medusa_market.contract_revision.price_low IS
    'Currency per unit of load and hour: level 0; price_high is the highest level.';
COMMENT ON COLUMN medusa_market.contract_revision.fragments IS
    'The fragments that may move; NULL: any of the payer''s.';
COMMENT ON COLUMN medusa_market.contract_revision.billed IS
    'In documents of earlier versions; nothing reads it.';
COMMENT ON COLUMN medusa_market.contract_revision.reference IS
    'CPU microseconds a record, as FRAGMENT/STREAM=MICROSECONDS: what load is billed by; NULL: it '
    'is not billed.';
COMMENT ON COLUMN medusa_market.contract_revision.verify IS
    'The share of the provider''s buckets that the payer recomputes; NULL: 0.01.';
COMMENT ON COLUMN medusa_market.contract_revision.bound_ms IS 'The bound promised; NULL: none is.';
COMMENT ON COLUMN medusa_market.contract_revision.boxes IS
    'The kinds of boxes that the payer may define over the stream; NULL: none.';
COMMENT ON COLUMN medusa_market.contract_revision.reads IS
    'The streams of third participants that the provider reads for the fragments; NULL: none.';
COMMENT ON COLUMN medusa_market.contract_revision.instead IS
    'The participant from which to buy the stream.';

CREATE TABLE medusa_market.contract_signature (
    revision   text COLLATE "C" NOT NULL REFERENCES medusa_market.contract_revision,
    party      text COLLATE "C" NOT NULL,
    signature  bytea NOT NULL CHECK (octet_length(signature) = 64),
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    who        text NOT NULL DEFAULT session_user,
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (revision, party, public_key)
);
COMMENT ON TABLE medusa_market.contract_signature IS
    'The signatures of revisions, each verified before it was stored here; insert-only.';
COMMENT ON COLUMN medusa_market.contract_signature.public_key IS
    'The key that it was verified with.';

CREATE TABLE medusa_market.contract_proposal (
    proposal_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract    text COLLATE "C" NOT NULL REFERENCES medusa_market.contract_order,
    revision    text COLLATE "C" NOT NULL REFERENCES medusa_market.contract_revision,
    proposed_by text COLLATE "C" NOT NULL,
    because     text NOT NULL CHECK (char_length(because) BETWEEN 1 AND 200),
    who         text NOT NULL DEFAULT session_user,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at  timestamptz NOT NULL CHECK (isfinite(expires_at)),
    state       text NOT NULL DEFAULT 'open'
        CHECK (state IN ('open', 'agreed', 'withdrawn', 'superseded', 'expired')),
    ended_at    timestamptz,
    let_go_at   timestamptz,
    partner_number     bigint,
    CONSTRAINT proposal_ends_once CHECK ((state = 'open') = (ended_at IS NULL)),
    CONSTRAINT proposal_is_let_go_when_ended CHECK (let_go_at IS NULL OR state <> 'open')
);
COMMENT ON TABLE medusa_market.contract_proposal IS
    'Edits of a party that lack a signature, and their outcomes; one of each party is open at '
    'a time.';
COMMENT ON COLUMN medusa_market.contract_proposal.let_go_at IS
    'Since when the payer is known not to sign it any more; until then an agreement may still '
    'come.';
COMMENT ON COLUMN medusa_market.contract_proposal.partner_number IS
    'The number of a partner''s proposal in its own home; NULL for this home''s.';
CREATE UNIQUE INDEX contract_proposal_open
    ON medusa_market.contract_proposal (contract, proposed_by)
    WHERE state = 'open';
COMMENT ON INDEX medusa_market.contract_proposal_open IS 'A party proposes one thing at a time.';
CREATE INDEX contract_proposal_of_revision ON medusa_market.contract_proposal (revision);
COMMENT ON INDEX medusa_market.contract_proposal_of_revision IS
    'The proposals of a revision.';
CREATE INDEX contract_proposal_of_party ON medusa_market.contract_proposal (proposed_by, made_at);
COMMENT ON INDEX medusa_market.contract_proposal_of_party IS
    'The latest proposals of a party.';

CREATE TABLE medusa_market.contract_agreement (
    revision  text COLLATE "C" PRIMARY KEY REFERENCES medusa_market.contract_revision,
    contract  text COLLATE "C" NOT NULL REFERENCES medusa_market.contract_order,
    number    bigint NOT NULL,
    agreed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (contract, number),
    FOREIGN KEY (contract, number, revision)
        REFERENCES medusa_market.contract_revision (contract, number, revision)
);
COMMENT ON TABLE medusa_market.contract_agreement IS
    'Revisions with both signatures in this home, one of each number; insert-only.';

CREATE TABLE medusa_market.contract_notice (
    notice_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract  text COLLATE "C" NOT NULL REFERENCES medusa_market.contract_order,
    given_by  text COLLATE "C" NOT NULL,
    stated_by   text COLLATE "C" NOT NULL,
    ends_at   timestamptz NOT NULL CHECK (isfinite(ends_at)),
    who       text NOT NULL DEFAULT session_user,
    noted_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa_market.contract_notice IS
    'Notices that end contracts, and when: the latest time that either party has stated, so '
    'that the notice runs in full for the party that receives it; insert-only.';
CREATE INDEX contract_notice_of_contract ON medusa_market.contract_notice (contract, ends_at);
COMMENT ON INDEX medusa_market.contract_notice_of_contract IS 'When a contract ends.';

CREATE TABLE medusa_market.round (
    number    bigint PRIMARY KEY CHECK (number > 0),
    opened_at timestamptz NOT NULL,
    opened_by text NOT NULL DEFAULT session_user,
    because   text NOT NULL CHECK (char_length(because) BETWEEN 1 AND 200)
);
COMMENT ON TABLE medusa_market.round IS
    'Rounds of this home, by its own clock and count: partners count their own; insert-only.';

CREATE TABLE medusa_market.contract_activation (
    revision     text COLLATE "C" PRIMARY KEY REFERENCES medusa_market.contract_agreement,
    contract     text COLLATE "C" NOT NULL,
    number       bigint NOT NULL,
    round        bigint NOT NULL REFERENCES medusa_market.round,
    activated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (contract, number)
);
COMMENT ON TABLE medusa_market.contract_activation IS
    'From which round on agreed revisions are active here; the last of a contract is the one that '
    'counts; insert-only.';

CREATE TABLE medusa_market.contract_claim (
    contract text COLLATE "C" NOT NULL REFERENCES medusa_market.contract_order,
    subject  text COLLATE "C" NOT NULL,
    kind     text COLLATE "C" NOT NULL,
    payer    text COLLATE "C" NOT NULL,
    provider text COLLATE "C" NOT NULL,
    validity tstzrange NOT NULL,
    between_range int8range NOT NULL GENERATED ALWAYS AS (
        medusa_market.subject_range(kind || '/' || payer || '/' || provider)) STORED,
    subject_range int8range NOT NULL GENERATED ALWAYS AS (
        medusa_market.subject_range(nullif(subject, '*'))) STORED,
    PRIMARY KEY (contract, subject),
    CONSTRAINT claim_is_for_a_time CHECK (NOT isempty(validity) AND lower_inc(validity)
        AND NOT upper_inc(validity)),
    CONSTRAINT contracts_of_one_subject_never_overlap EXCLUDE USING gist
        (between_range WITH &&, subject_range WITH &&, validity WITH &&) DEFERRABLE
);
COMMENT ON TABLE medusa_market.contract_claim IS
    'Subjects of agreed contracts, and when: no two of one kind, direction and pair of '
    'partners have a subject (a fragment, a stream; * for any fragment) at the same time.';

CREATE TABLE medusa_market.contract_void (
    void_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract  text COLLATE "C" NOT NULL REFERENCES medusa_market.contract_order,
    number    bigint NOT NULL,
    revision  text COLLATE "C" NOT NULL REFERENCES medusa_market.contract_revision,
    because   text NOT NULL CHECK (char_length(because) BETWEEN 1 AND 200),
    voided_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa_market.contract_void IS
    'Agreements that count no more in this home, since both homes keep another one, or none; '
    'insert-only.';
CREATE INDEX contract_void_of_revision ON medusa_market.contract_void (revision, voided_at);
COMMENT ON INDEX medusa_market.contract_void_of_revision IS
    'Whether and when a revision became void.';

CREATE TABLE medusa_market.statement (
    statement  text COLLATE "C" NOT NULL CHECK (char_length(statement) BETWEEN 1 AND 300),
    party      text COLLATE "C" NOT NULL,
    signature  bytea NOT NULL CHECK (octet_length(signature) = 64),
    public_key bytea NOT NULL CHECK (octet_length(public_key) = 32),
    noted_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (statement, party, public_key)
);
COMMENT ON TABLE medusa_market.statement IS
    'Signed statements of the parties, so that they can be shown to a home that has lost them: '
    '"holds <revision>" by the provider, "ends <contract> <given by> <ms>" by either; '
    '"bills <statement>" by the provider, "owes <statement> <outcome> <amount>" by the payer; '
    'insert-only.';

CREATE TABLE medusa_market.statement_due (
    statement text COLLATE "C" PRIMARY KEY
);
COMMENT ON TABLE medusa_market.statement_due IS
    'The statements that this home''s program is to sign next; "signs <revision>" is a '
    'contract to be signed again.';

CREATE TABLE medusa_market.partner_home (
    partner     text COLLATE "C" PRIMARY KEY,
    incarnation uuid NOT NULL,
    since       timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa_market.partner_home IS
    'The incarnation of its home that each partner named last: with another one it counts its '
    'rounds from the start.';

CREATE TABLE medusa_market.definition (
    definition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    contract      text COLLATE "C" NOT NULL,
    buyer         text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    number        bigint NOT NULL CHECK (number > 0),
    document      text NOT NULL CHECK (octet_length(document) <= 16384),
    state         text NOT NULL
        CHECK (state IN ('sent', 'waiting', 'running', 'refused', 'ended')),
    reason        text CHECK (char_length(reason) BETWEEN 1 AND 2000),
    noted_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    settled_at    timestamptz,
    UNIQUE (buyer, name)
);
COMMENT ON TABLE medusa_market.definition IS
    'Boxes that a buyer defined over a stream that it buys: in the home of the buyer as it sent them, '
    'in that of the seller as they arrived. A name is used once.';
COMMENT ON COLUMN medusa_market.definition.name IS
    'The stream that they write is named BUYER__NAME.';
COMMENT ON COLUMN medusa_market.definition.number IS
    'Counts what the buyer has sent about the name: an older message changes nothing.';
COMMENT ON COLUMN medusa_market.definition.document IS
    'medusa_core/market/definitions.py, as the buyer wrote it.';

ALTER TABLE medusa_market.contract_revision ENABLE ROW LEVEL SECURITY;
ALTER TABLE medusa_market.contract_proposal ENABLE ROW LEVEL SECURITY;
ALTER TABLE medusa_market.contract_signature ENABLE ROW LEVEL SECURITY;
CREATE POLICY agreed_for_all ON medusa_market.contract_revision FOR SELECT USING (EXISTS (
    SELECT FROM medusa_market.contract_agreement AS a
        WHERE a.revision = contract_revision.revision));
CREATE POLICY all_for_owner_and_job ON medusa_market.contract_revision FOR SELECT USING (
    current_user IN (current_database() || '_owner', current_database() || '_job'));
CREATE POLICY all_for_owner_and_job ON medusa_market.contract_proposal FOR SELECT USING (
    current_user IN (current_database() || '_owner', current_database() || '_job'));
CREATE POLICY agreed_for_all ON medusa_market.contract_signature FOR SELECT USING (EXISTS (
    SELECT FROM medusa_market.contract_agreement AS a
        WHERE a.revision = contract_signature.revision));
CREATE POLICY all_for_owner_and_job ON medusa_market.contract_signature FOR SELECT USING (
    current_user IN (current_database() || '_owner', current_database() || '_job'));
COMMENT ON POLICY agreed_for_all ON medusa_market.contract_revision IS
    'Roles that may read contracts see the agreed ones.';
COMMENT ON POLICY agreed_for_all ON medusa_market.contract_signature IS
    'Roles that may read contracts see the signatures of the agreed ones.';
COMMENT ON POLICY all_for_owner_and_job ON medusa_market.contract_revision IS
    'Only the owner and its program see mere proposals.';
COMMENT ON POLICY all_for_owner_and_job ON medusa_market.contract_proposal IS
    'Only the owner and its program see mere proposals.';
COMMENT ON POLICY all_for_owner_and_job ON medusa_market.contract_signature IS
    'Only the owner and its program see mere proposals.';
CREATE POLICY all_for_page ON medusa_market.contract_revision FOR SELECT USING (
    current_user = current_database() || '_page');
CREATE POLICY all_for_page ON medusa_market.contract_proposal FOR SELECT USING (
    current_user = current_database() || '_page');
CREATE POLICY all_for_page ON medusa_market.contract_signature FOR SELECT USING (
    current_user = current_database() || '_page');
COMMENT ON POLICY all_for_page ON medusa_market.contract_revision IS
    'The operator''s page shows what is proposed.';
COMMENT ON POLICY all_for_page ON medusa_market.contract_proposal IS
    'The operator''s page shows what is proposed.';
COMMENT ON POLICY all_for_page ON medusa_market.contract_signature IS
    'The operator''s page shows what is proposed.';
