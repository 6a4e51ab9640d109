CREATE OR REPLACE FUNCTION medusa_api.grant_stream(stream text, partner text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM medusa_market.check_names(grant_stream.partner);
    IF grant_stream.partner = medusa_market.here() THEN
        RAISE EXCEPTION '% reads its own streams without a grant', grant_stream.partner
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = grant_stream.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: grant one that is',
            coalesce(quote_literal(left(grant_stream.stream, 80)), 'NULL') USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_grant (stream, partner)
    VALUES (grant_stream.stream, grant_stream.partner) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        PERFORM medusa_market.write_audit('granted stream', grant_stream.stream, NULL,
            to_jsonb(grant_stream.partner));
    END IF;
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION medusa_api.grant_stream(text, text) IS
    'For the owner: let a partner read a stream through the exchange server; whether it is new.';
