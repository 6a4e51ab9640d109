CREATE OR REPLACE FUNCTION medusa.chain_at(line_id integer, version bigint) RETURNS bytea
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    chain bytea;
BEGIN
    SELECT v.chain INTO chain FROM medusa.line_version AS v
    WHERE (v.line_id, v.version) = (chain_at.line_id, chain_at.version);
    IF NOT FOUND THEN
        SELECT sha256(convert_to(h.incarnation || '/' || chain_at.version, 'UTF8')) INTO chain
        FROM medusa.home AS h;
    END IF;
    RETURN chain;
END $$;
COMMENT ON FUNCTION medusa.chain_at(integer, bigint) IS
    'The chain of a line that is written here, at a version; where none is known one begins.';
