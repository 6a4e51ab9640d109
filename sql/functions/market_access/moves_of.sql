CREATE OR REPLACE FUNCTION medusa_market.moves_of(partner text) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*) FROM medusa_market.audit AS a
    WHERE a.what IN ('partner', 'moved partner') AND a.subject = moves_of.partner
        AND a.at > clock_timestamp() - interval '1 day'
$$;
COMMENT ON FUNCTION medusa_market.moves_of(text) IS
    'How often a partner has joined or has changed its address within a day: each is kept.';
