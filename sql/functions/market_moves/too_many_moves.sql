CREATE OR REPLACE FUNCTION medusa_market.too_many_moves(
    is_given boolean, terms medusa_market.contract_revision) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    -- One statement has room for so many, each with a loss.
    SELECT format('128 moves have begun under contract %s within a settlement period: wait, or '
        'settle it more often', terms.contract)
    FROM medusa_market.move AS m
    WHERE m.is_given = too_many_moves.is_given AND m.contract = terms.contract
        AND (m.state <> 'ended'
            OR m.began_at > clock_timestamp() - terms.settlement_ms * interval '1 ms')
    HAVING count(*) >= 128
$$;
COMMENT ON FUNCTION medusa_market.too_many_moves(boolean, medusa_market.contract_revision) IS
    'Why no more moves begin under a contract now; NULL: they do.';
