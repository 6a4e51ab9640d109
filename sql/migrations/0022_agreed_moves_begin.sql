-- The move of a fragment knows in which agreement of a round it began.
ALTER TABLE medusa_market.move
    ADD COLUMN agreed_id bigint UNIQUE REFERENCES medusa_market.agreed_move;
COMMENT ON COLUMN medusa_market.move.agreed_id IS
    'The agreement of a round that it carries out; NULL: there is none.';
COMMENT ON TABLE medusa_market.agreed_move IS
    'Fragments that this home gives to a partner (is_given) or takes from one: accepted, until '
    'its move ends, or its time is over before one begins (lapsed). Granted: load that a partner '
    'would take so that this home can take some itself; it lapses with the round unless that '
    'happened.';
