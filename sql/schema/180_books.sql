-- What is owed under contracts: rows that are billed, statements, answers, payments, and the books.
--
-- Each home counts the final rows of a sold stream as they become final, and makes its own statement
-- of each settlement period. The provider sends its statement; the payer answers what it owes of it.
-- Documents, and the amounts in them, are made by medusa_core/market; the books are kept here, and
-- change by insertion alone.

CREATE TABLE medusa_market.billing_position (
    contract      text COLLATE "C" PRIMARY KEY REFERENCES medusa_market.contract_order,
    period        bigint NOT NULL DEFAULT 1 CHECK (period > 0),
    from_ms       bigint NOT NULL,
    number        bigint NOT NULL DEFAULT 1 CHECK (number > 0),
    has_ended     boolean NOT NULL DEFAULT false,
    counts        bigint NOT NULL DEFAULT 0
);
COMMENT ON TABLE medusa_market.billing_position IS
    'How far this home has counted and stated what a contract bills.';
COMMENT ON COLUMN medusa_market.billing_position.period IS 'The next period that is stated.';
COMMENT ON COLUMN medusa_market.billing_position.from_ms IS 'Where that period begins.';
COMMENT ON COLUMN medusa_market.billing_position.number IS
    'The number of the revision that applied to the period before.';
COMMENT ON COLUMN medusa_market.billing_position.counts IS
    'How often something was counted, so that a statement is made of what is counted now.';

CREATE TABLE medusa_market.billed_line (
    contract      text COLLATE "C" NOT NULL REFERENCES medusa_market.billing_position,
    subject       text COLLATE "C" NOT NULL,
    line_id       integer NOT NULL REFERENCES medusa.stream_producer,
    noted_us      bigint NOT NULL,
    noted_version bigint NOT NULL,
    PRIMARY KEY (contract, subject)
);
COMMENT ON TABLE medusa_market.billed_line IS
    'The lines whose final rows a contract bills, and how far each is counted.';
COMMENT ON COLUMN medusa_market.billed_line.subject IS
    'Empty for the stream that a contract sells, and NUMBER/STREAM for a stream that a moved '
    'fragment reads or writes.';
COMMENT ON COLUMN medusa_market.billed_line.noted_us IS
    'The final rows of all buckets before it are counted, as they were at noted_version of the line.';

CREATE TABLE medusa_market.billed_range (
    contract    text COLLATE "C" NOT NULL REFERENCES medusa_market.billing_position,
    from_us     bigint NOT NULL,
    to_us       bigint NOT NULL,
    period      bigint NOT NULL,
    rows        bigint NOT NULL,
    sum_a       numeric NOT NULL,
    sum_b       numeric NOT NULL,
    stated_rows bigint,
    stated_a    numeric,
    stated_b    numeric,
    price       numeric,
    subject     text COLLATE "C" NOT NULL DEFAULT '',
    gap_us      bigint NOT NULL DEFAULT 0 CHECK (gap_us >= 0),
    PRIMARY KEY (contract, subject, from_us),
    CONSTRAINT billed_range_is_not_empty CHECK (from_us < to_us),
    CONSTRAINT billed_range_is_stated_whole
        CHECK (num_nonnulls(stated_rows, stated_a, stated_b, price) IN (0, 4)),
    CONSTRAINT billed_rows_are_counted CHECK (rows >= 0 AND sum_a >= 0 AND sum_b >= 0)
);
COMMENT ON TABLE medusa_market.billed_range IS
    'The final rows of a line that is billed, counted by ranges of a settlement period, so that '
    'trimming the stream loses nothing that is billed.';
COMMENT ON COLUMN medusa_market.billed_range.sum_a IS
    'With sum_b: the digest of the rows, the sum of those of the buckets.';
COMMENT ON COLUMN medusa_market.billed_range.stated_rows IS
    'As the last statement had it; NULL: none has. What differs is corrected by the next statement.';
COMMENT ON COLUMN medusa_market.billed_range.price IS 'The price of a record when it was stated.';
COMMENT ON COLUMN medusa_market.billed_range.subject IS 'As billed_line has it.';
COMMENT ON COLUMN medusa_market.billed_range.gap_us IS
    'How much of it is lost for good, in microseconds of event time.';
CREATE INDEX billed_range_changed ON medusa_market.billed_range (contract, from_us)
    WHERE (rows, sum_a, sum_b) IS DISTINCT FROM (stated_rows, stated_a, stated_b);
COMMENT ON INDEX medusa_market.billed_range_changed IS 'What is to be stated or corrected.';

CREATE TABLE medusa_market.bill (
    contract  text COLLATE "C" NOT NULL,
    period    bigint NOT NULL CHECK (period > 0),
    made_by   text COLLATE "C" NOT NULL,
    statement text COLLATE "C" NOT NULL,
    document  bytea NOT NULL,
    revision  text COLLATE "C" NOT NULL,
    from_ms   bigint NOT NULL,
    to_ms     bigint NOT NULL,
    payer     text COLLATE "C" NOT NULL,
    provider  text COLLATE "C" NOT NULL,
    currency  text COLLATE "C" NOT NULL,
    total     numeric NOT NULL,
    cut_us    bigint CHECK (cut_us > 0),
    noted_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (contract, period, made_by),
    CONSTRAINT bill_is_the_hash CHECK (statement = encode(sha256(document), 'hex')),
    CONSTRAINT bill_is_short CHECK (octet_length(document) <= 65536),
    CONSTRAINT bill_is_of_a_period CHECK (from_ms < to_ms),
    CONSTRAINT bill_is_of_a_party CHECK (made_by IN (payer, provider) AND payer <> provider)
);
COMMENT ON TABLE medusa_market.bill IS
    'Statements of settlement periods: those that this home made, and those that it received; '
    'insert-only.';
COMMENT ON COLUMN medusa_market.bill.statement IS 'SHA-256 of the document.';
COMMENT ON COLUMN medusa_market.bill.document IS 'medusa_core/market/bill_statements.py';
COMMENT ON COLUMN medusa_market.bill.cut_us IS
    'By how much event time this home counted; NULL: it was received.';
CREATE INDEX bill_of_statement ON medusa_market.bill (statement);
COMMENT ON INDEX medusa_market.bill_of_statement IS 'A statement by its hash.';

CREATE TABLE medusa_market.bill_answer (
    contract  text COLLATE "C" NOT NULL,
    period    bigint NOT NULL,
    step      integer NOT NULL CHECK (step IN (1, 2)),
    statement text COLLATE "C" NOT NULL,
    outcome   text COLLATE "C" NOT NULL,
    own       bytea,
    amount    numeric NOT NULL,
    blocked   numeric NOT NULL CHECK (blocked >= 0),
    from_us   bigint,
    to_us     bigint,
    noted_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (contract, period, step),
    CONSTRAINT first_answer_agrees_or_disputes
        CHECK ((step = 1) = (outcome IN ('agreed', 'disputed'))),
    CONSTRAINT second_answer_ends_a_dispute CHECK ((step = 2) = (outcome IN ('claimed', 'own'))),
    CONSTRAINT dispute_has_two_statements CHECK ((outcome = 'disputed') = (own IS NOT NULL)),
    CONSTRAINT dispute_names_a_segment
        CHECK (num_nonnulls(from_us, to_us) = CASE outcome WHEN 'disputed' THEN 2 ELSE 0 END),
    CONSTRAINT dispute_alone_blocks CHECK (outcome = 'disputed' OR blocked = 0)
);
COMMENT ON TABLE medusa_market.bill_answer IS
    'What the payer owes of the provider''s statement, in both homes: all of it (agreed), or what '
    'both agree on (disputed); then, to end the dispute, what is claimed or the payer''s own total; '
    'insert-only.';
COMMENT ON COLUMN medusa_market.bill_answer.own IS 'Of a dispute: the payer''s own statement.';
COMMENT ON COLUMN medusa_market.bill_answer.amount IS 'What the payer owes in all of the statement.';
COMMENT ON COLUMN medusa_market.bill_answer.from_us IS
    'Of a dispute: the first segment in which the two statements differ.';

CREATE TABLE medusa_market.payment (
    payment_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    partner     text COLLATE "C" NOT NULL CHECK (medusa_market.is_name(partner)),
    currency    text COLLATE "C" NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    amount      numeric NOT NULL CHECK (amount > 0 AND amount <= 1000000000000000
        AND scale(amount) <= 6),
    is_received boolean NOT NULL,
    reference   text NOT NULL CHECK (char_length(reference) BETWEEN 1 AND 200),
    who         text NOT NULL DEFAULT session_user,
    noted_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (partner, reference)
);
COMMENT ON TABLE medusa_market.payment IS
    'Payments to partners and from them, as the owner recorded them; insert-only.';
COMMENT ON COLUMN medusa_market.payment.reference IS
    'What the payment is known by, such as that of a bank; one payment each.';

CREATE TABLE medusa_market.book_entry (
    entry_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key        text COLLATE "C" NOT NULL UNIQUE CHECK (char_length(key) BETWEEN 1 AND 400),
    kind       text COLLATE "C" NOT NULL
        CHECK (kind IN ('statement', 'correction', 'penalty', 'payment')),
    partner    text COLLATE "C" NOT NULL,
    currency   text COLLATE "C" NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    contract   text COLLATE "C",
    revision   text COLLATE "C",
    period     bigint,
    statement  text COLLATE "C",
    payment_id bigint REFERENCES medusa_market.payment,
    made_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    made_in    xid8 NOT NULL DEFAULT pg_current_xact_id(),
    CONSTRAINT entry_names_its_cause CHECK (CASE kind
        WHEN 'payment' THEN payment_id IS NOT NULL
            AND num_nonnulls(contract, revision, period, statement) = 0
        ELSE payment_id IS NULL
            AND num_nonnulls(contract, revision, period, statement) = 4 END)
);
COMMENT ON TABLE medusa_market.book_entry IS
    'The entries of the books, each with the statement, revision and period, or the payment, that '
    'caused it; insert-only.';
COMMENT ON COLUMN medusa_market.book_entry.key IS
    'Determined by the cause: the same cause makes one entry.';
COMMENT ON COLUMN medusa_market.book_entry.made_in IS
    'The transaction that made it: its postings are made in the same.';
CREATE INDEX book_entry_of_statement ON medusa_market.book_entry (statement);
COMMENT ON INDEX medusa_market.book_entry_of_statement IS 'What a statement has caused.';

CREATE TABLE medusa_market.book_posting (
    entry_id bigint NOT NULL REFERENCES medusa_market.book_entry,
    account  text COLLATE "C" NOT NULL
        CHECK (account IN ('partner', 'revenue', 'cost', 'penalty', 'settlement')),
    amount   numeric NOT NULL CHECK (amount <> 0 AND amount <> 'NaN'),
    PRIMARY KEY (entry_id, account)
);
COMMENT ON TABLE medusa_market.book_posting IS
    'The postings of entries, of each account one: a debit is above zero, a credit below, and their '
    'sum is zero (S9); insert-only.';
