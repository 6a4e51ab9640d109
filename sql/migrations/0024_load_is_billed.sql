-- Load that moved fragments take is billed, by reference; gaps and losses cost the penalty.
ALTER TABLE medusa_market.contract_revision ADD COLUMN reference text[] COLLATE "C";
ALTER TABLE medusa_market.contract_revision DROP CONSTRAINT kind_has_its_terms;
ALTER TABLE medusa_market.contract_revision ADD CONSTRAINT kind_has_its_terms CHECK (CASE kind
    WHEN 'movement' THEN num_nonnulls(price_low, price_high, price_step, load_max, recovery,
        method, replicas, penalty, hold_ms_max) = 9
        AND num_nonnulls(stream, price, per, instead, boxes) = 0
    WHEN 'content' THEN num_nonnulls(stream, price, per, recovery, method, replicas, penalty,
        hold_ms_max) = 8
        AND num_nonnulls(price_low, price_high, price_step, fragments, billed, reference,
            instead, reads) = 0
        AND num_nonnulls(boxes, load_max) IN (0, 2)
    WHEN 'suggested' THEN num_nonnulls(stream, instead) = 2
        AND num_nonnulls(price_low, price_high, price_step, fragments, load_max, billed,
            reference, recovery, method, replicas, bound_ms, penalty, hold_ms_max, price, per,
            boxes, reads) = 0
    ELSE false END);
COMMENT ON COLUMN medusa_market.contract_revision.billed IS
    'In documents of earlier versions; nothing reads it.';
COMMENT ON COLUMN medusa_market.contract_revision.reference IS
    'CPU microseconds a record, as FRAGMENT/STREAM=MICROSECONDS: what load is billed by; NULL: it '
    'is not billed.';

ALTER TABLE medusa_market.move
    ADD COLUMN price numeric CHECK (price > 0),
    ADD COLUMN from_us bigint,
    ADD COLUMN to_us bigint,
    ADD COLUMN lost_us bigint,
    ADD COLUMN is_own_loss boolean,
    ADD COLUMN payer_has_ended boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT what_is_billed_has_begun CHECK (to_us IS NULL OR from_us <= to_us);
COMMENT ON COLUMN medusa_market.move.price IS
    'Currency per hour and unit of load: as a round has agreed, else the highest of the contract; '
    'NULL of moves before load was billed.';
COMMENT ON COLUMN medusa_market.move.from_us IS
    'The first bucket that the partner owned and is paid for; NULL: it was not released.';
COMMENT ON COLUMN medusa_market.move.to_us IS
    'The bucket behind the last one that the partner is paid for, which is final in the payer''s '
    'home; NULL: the move has not ended.';
COMMENT ON COLUMN medusa_market.move.lost_us IS
    'The first bucket for which the payer waited in vain when it took the fragment back.';
COMMENT ON COLUMN medusa_market.move.is_own_loss IS
    'In the home of the provider: it had not computed that bucket when it received the message.';
COMMENT ON COLUMN medusa_market.move.payer_has_ended IS
    'In the home of the provider: the payer''s message of the end was received.';

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
INSERT INTO medusa_market.billed_line (contract, subject, line_id, noted_us, noted_version)
SELECT b.contract, '', b.line_id, b.noted_us, b.noted_version
FROM medusa_market.billing_position AS b WHERE b.line_id IS NOT NULL;

ALTER TABLE medusa_market.billing_position
    DROP CONSTRAINT position_is_of_a_line,
    DROP COLUMN line_id,
    DROP COLUMN noted_us,
    DROP COLUMN noted_version,
    ADD COLUMN counts bigint NOT NULL DEFAULT 0;
COMMENT ON COLUMN medusa_market.billing_position.counts IS
    'How often something was counted, so that a statement is made of what is counted now.';

ALTER TABLE medusa_market.billed_range
    ADD COLUMN subject text COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN gap_us bigint NOT NULL DEFAULT 0 CHECK (gap_us >= 0),
    DROP CONSTRAINT billed_range_pkey,
    ADD PRIMARY KEY (contract, subject, from_us);
COMMENT ON TABLE medusa_market.billed_range IS
    'The final rows of a line that is billed, counted by ranges of a settlement period, so that '
    'trimming the stream loses nothing that is billed.';
COMMENT ON COLUMN medusa_market.billed_range.subject IS 'As billed_line has it.';
COMMENT ON COLUMN medusa_market.billed_range.gap_us IS
    'How much of it is lost for good, in microseconds of event time.';
