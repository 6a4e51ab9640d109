CREATE OR REPLACE FUNCTION medusa_market.tell_standings() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    partner text;
    told    integer := 0;
BEGIN
    FOR partner IN
        SELECT DISTINCT p.party FROM medusa_market.contract_revision AS r
        JOIN medusa_market.contract_agreement AS a ON a.revision = r.revision,
            LATERAL (VALUES (r.payer), (r.provider)) AS p (party)
        WHERE p.party <> medusa_market.here() ORDER BY 1
    LOOP
        PERFORM medusa_market.put_out(partner, 'standing', 'standing', jsonb_build_object(
            'incarnation', h.incarnation, 'digest', medusa_market.standing_with(partner)))
        FROM medusa.home AS h;
        told := told + 1;
    END LOOP;
    RETURN told;
END $$;
COMMENT ON FUNCTION medusa_market.tell_standings() IS
    'Send each partner one hash of the agreements with it; returns how many.';
