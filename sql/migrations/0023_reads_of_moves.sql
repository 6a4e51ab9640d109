-- A movement contract may name streams of third participants that the provider reads.
ALTER TABLE medusa_market.contract_revision
    ADD COLUMN reads text[] COLLATE "C",
    DROP CONSTRAINT kind_has_its_terms,
    ADD CONSTRAINT kind_has_its_terms CHECK (CASE kind
        WHEN 'movement' THEN num_nonnulls(price_low, price_high, price_step, load_max, billed,
            recovery, method, replicas, penalty, hold_ms_max) = 10
            AND num_nonnulls(stream, price, per, instead, boxes) = 0
        WHEN 'content' THEN num_nonnulls(stream, price, per, recovery, method, replicas, penalty,
            hold_ms_max) = 8
            AND num_nonnulls(price_low, price_high, price_step, fragments, billed, instead,
                reads) = 0
            AND num_nonnulls(boxes, load_max) IN (0, 2)
        WHEN 'suggested' THEN num_nonnulls(stream, instead) = 2
            AND num_nonnulls(price_low, price_high, price_step, fragments, load_max, billed,
                recovery, method, replicas, bound_ms, penalty, hold_ms_max, price, per, boxes,
                reads) = 0
        ELSE false END);
COMMENT ON COLUMN medusa_market.contract_revision.reads IS
    'The streams of third participants that the provider reads for the fragments; NULL: none.';
