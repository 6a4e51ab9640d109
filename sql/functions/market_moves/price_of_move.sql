CREATE OR REPLACE FUNCTION medusa_market.price_of_move(
    terms medusa_market.contract_revision, agreed_id bigint) RETURNS numeric
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce((SELECT a.price FROM medusa_market.agreed_move AS a
        WHERE a.move_id = price_of_move.agreed_id), terms.price_high)
$$;
COMMENT ON FUNCTION medusa_market.price_of_move(medusa_market.contract_revision, bigint) IS
    'What a moved fragment is paid for, per hour and unit of load: what a round has agreed, else '
    'the highest price of the contract.';
