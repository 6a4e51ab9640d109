CREATE OR REPLACE FUNCTION medusa_market.send_statuses() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    partner text;
    sent    integer := 0;
BEGIN
    FOR partner IN
        SELECT DISTINCT p.party FROM medusa_market.contract_revision AS r
        JOIN medusa_market.contract_agreement AS a ON a.revision = r.revision,
            LATERAL (VALUES (r.payer), (r.provider)) AS p (party)
        WHERE p.party <> medusa_market.here() ORDER BY 1
    LOOP
        PERFORM medusa_market.put_out(partner, 'status', 'status', jsonb_build_object(
            'incarnation', h.incarnation, 'digest', medusa_market.holdings_digest(partner)))
        FROM medusa.home AS h;
        sent := sent + 1;
    END LOOP;
    RETURN sent;
END $$;
COMMENT ON FUNCTION medusa_market.send_statuses() IS
    'Send each partner one hash of the agreements with it; returns how many.';
