CREATE OR REPLACE FUNCTION medusa_market.withdraw_definition(name text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    here  text := medusa_market.here();
    known medusa_market.definition;
BEGIN
    UPDATE medusa_market.definition AS d
    SET state = 'ended', reason = 'withdrawn', number = d.number + 1,
        settled_at = clock_timestamp()
    WHERE (d.buyer, d.name) = (here, withdraw_definition.name)
        AND d.state IN ('sent', 'running')
    RETURNING d.* INTO known;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM medusa_market.put_out(r.provider, 'definition', 'definition/' || known.name || '/'
        || known.number, known.document::jsonb || jsonb_build_object('number', known.number,
            'boxes', '[]'::jsonb))
    FROM medusa_api.contract AS r WHERE r.contract = known.contract;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.withdraw_definition(text) IS
    'For jobs of the buyer: end a definition; whether it was there and had not ended.';
