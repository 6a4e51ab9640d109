-- A content contract may let the payer define boxes over the stream, which the provider runs.
ALTER TABLE medusa_market.contract_revision
    ADD COLUMN boxes text[] COLLATE "C",
    DROP CONSTRAINT kind_has_its_terms,
    ADD CONSTRAINT kind_has_its_terms CHECK (CASE kind
        WHEN 'movement' THEN num_nonnulls(price_low, price_high, price_step, load_max, billed,
            recovery, method, replicas, penalty, hold_ms_max) = 10
            AND num_nonnulls(stream, price, per, instead, boxes) = 0
        WHEN 'content' THEN num_nonnulls(stream, price, per, recovery, method, replicas, penalty,
            hold_ms_max) = 8
            AND num_nonnulls(price_low, price_high, price_step, fragments, billed, instead) = 0
            AND num_nonnulls(boxes, load_max) IN (0, 2)
        WHEN 'suggested' THEN num_nonnulls(stream, instead) = 2
            AND num_nonnulls(price_low, price_high, price_step, fragments, load_max, billed,
                recovery, method, replicas, bound_ms, penalty, hold_ms_max, price, per, boxes) = 0
        ELSE false END);
COMMENT ON COLUMN medusa_market.contract_revision.boxes IS
    'The kinds of boxes that the payer may define over the stream; NULL: none.';
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
ALTER TABLE medusa.fragment ADD COLUMN stopped_at timestamptz;
COMMENT ON COLUMN medusa.fragment.stopped_at IS
    'Since when it is not computed any more, whatever the assignment log says; NULL: it is.';
