CREATE OR REPLACE FUNCTION medusa_market.agreed_as(is_given boolean, partner text, contract text,
    fragment text) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT a.move_id FROM medusa_market.agreed_move AS a
    WHERE (a.is_given, a.partner, a.contract, a.state, a.partition) =
            (agreed_as.is_given, agreed_as.partner, agreed_as.contract, 'accepted', 0)
        AND medusa_market.is_fragment_of(replace(agreed_as.fragment, '/', '.'), a.fragment)
        AND NOT EXISTS (SELECT FROM medusa_market.move AS m WHERE m.agreed_id = a.move_id)
    ORDER BY a.fragment DESC LIMIT 1
$$;
COMMENT ON FUNCTION medusa_market.agreed_as(boolean, text, text, text) IS
    'The agreement of a round that a move of a fragment carries out; NULL if there is none.';
