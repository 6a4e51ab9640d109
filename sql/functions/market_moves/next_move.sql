CREATE OR REPLACE FUNCTION medusa_market.next_move() RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(max(m.number), 0) + 1 FROM medusa_market.move AS m WHERE m.is_given
$$;
COMMENT ON FUNCTION medusa_market.next_move() IS 'The number of the next move of this home.';
