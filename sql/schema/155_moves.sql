-- Moves of fragments between this home and its partners.

CREATE TABLE medusa_market.move (
    move_id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    is_given       boolean NOT NULL,
    partner        text COLLATE "C" NOT NULL,
    contract       text COLLATE "C" NOT NULL,
    number         bigint NOT NULL CHECK (number BETWEEN 1 AND 2147483647),
    fragment       text COLLATE "C" NOT NULL CHECK (char_length(fragment) <= 200),
    state          text COLLATE "C" NOT NULL
        CHECK (state IN ('accepted', 'started', 'released', 'returning', 'ended')),
    order_document text NOT NULL CHECK (octet_length(order_document) <= 65536),
    reason         text NOT NULL CHECK (char_length(reason) <= 500),
    began_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    agreed_id      bigint UNIQUE REFERENCES medusa_market.agreed_move,
    price          numeric CHECK (price > 0),
    from_us        bigint,
    to_us          bigint,
    lost_us        bigint,
    is_own_loss    boolean,
    payer_has_ended boolean NOT NULL DEFAULT false,
    UNIQUE (is_given, partner, number),
    CONSTRAINT what_is_billed_has_begun CHECK (to_us IS NULL OR from_us <= to_us),
    CONSTRAINT taken_moves_are_not_released CHECK (
        is_given OR state NOT IN ('released', 'returning'))
);
COMMENT ON TABLE medusa_market.move IS
    'Fragments of this home that a partner computes (is_given), and those of partners that this home '
    'computes. The state of the home that gives decides who owns a bucket.';
COMMENT ON COLUMN medusa_market.move.number IS 'Counts the moves of the home that gives.';
COMMENT ON COLUMN medusa_market.move.order_document IS
    'Plan, inputs and first bucket, as pipelines/market/moves/move_order.py writes them.';
COMMENT ON COLUMN medusa_market.move.agreed_id IS
    'The agreement of a round that it carries out; NULL: there is none.';
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
CREATE UNIQUE INDEX move_of_fragment ON medusa_market.move (fragment)
    WHERE is_given AND state <> 'ended';
COMMENT ON INDEX medusa_market.move_of_fragment IS 'A fragment moves to one partner at a time.';

CREATE TABLE medusa_market.move_state (
    move_id  bigint NOT NULL REFERENCES medusa_market.move,
    state    text COLLATE "C" NOT NULL,
    reason   text NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (move_id, state)
);
COMMENT ON TABLE medusa_market.move_state IS
    'Each state of each move once: when it began, and why in numbers; insert-only.';
