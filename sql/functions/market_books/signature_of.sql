CREATE OR REPLACE FUNCTION medusa_market.signature_of(statement text, party text) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT s.signature FROM medusa_market.statement AS s
    WHERE s.statement = signature_of.statement AND s.party = signature_of.party
        AND NOT EXISTS (
            SELECT FROM medusa_market.key_disowned AS d WHERE d.public_key = s.public_key)
    ORDER BY s.noted_at DESC LIMIT 1
$$;
COMMENT ON FUNCTION medusa_market.signature_of(text, text) IS
    'A party''s newest signature of a sentence by a key that is not disowned; NULL: there is none.';
