CREATE OR REPLACE FUNCTION medusa_market.seeds_of_bill(bill medusa_market.bill) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_object_agg(m.number, encode(s.seed, 'hex'))
    FROM medusa_market.move AS m
    CROSS JOIN LATERAL medusa_market.revealed_seed(m.move_id, bill.period) AS s (seed)
    WHERE m.is_given AND m.contract = bill.contract AND s.seed IS NOT NULL
        AND m.from_us < bill.to_ms * 1000
        AND (m.to_us IS NULL OR m.to_us > bill.from_ms * 1000)
$$;
COMMENT ON FUNCTION medusa_market.seeds_of_bill(medusa_market.bill) IS
    'The seeds of the moves that a statement is about, which the payer reveals with its answer; '
    'NULL: there are none.';
