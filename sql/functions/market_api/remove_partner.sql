CREATE OR REPLACE FUNCTION medusa_api.remove_partner(partner text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    was_partner boolean;
BEGIN
    PERFORM medusa_market.check_names(remove_partner.partner);
    was_partner := remove_partner.partner <> medusa_market.here()
        AND (medusa_market.partner_keys(remove_partner.partner) <> '{}'
            OR EXISTS (SELECT FROM medusa_market.invitation AS i
                WHERE i.partner = remove_partner.partner));
    IF NOT was_partner THEN
        RETURN false;
    END IF;
    INSERT INTO medusa_market.partner AS p (participant, is_removed, confirmed_at)
    VALUES (remove_partner.partner, true, clock_timestamp())
    ON CONFLICT (participant) DO UPDATE SET is_removed = true, url = NULL, pin = NULL,
        changed_at = clock_timestamp(), changed_by = session_user,
        confirmed_at = coalesce(p.confirmed_at, clock_timestamp());
    DELETE FROM medusa_market.invitation AS i WHERE i.partner = remove_partner.partner;
    DELETE FROM medusa_market.access_token AS t WHERE t.partner = remove_partner.partner;
    PERFORM medusa_market.end_grants(g.stream, g.partner)
    FROM (
        SELECT DISTINCT s.stream, s.partner FROM medusa.stream_grant AS s
        WHERE s.partner = remove_partner.partner
    ) AS g;
    -- A stream that a contract sells to it has a hold, too; the contract stays as it was signed.
    PERFORM medusa.release_hold(h.stream, h.holder, h.purpose)
    FROM medusa.hold AS h WHERE (h.holder, h.purpose) = (remove_partner.partner, 'import');
    PERFORM medusa_market.write_audit('removed partner', remove_partner.partner, NULL, NULL);
    -- Wakes the requests of this partner that wait for news.
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_api.remove_partner(text) IS
    'For the owner: refuse a partner from now on. Its tokens, grants, holds and invitation end; its '
    'keys verify what it has signed before. Returns whether it was a partner, or invited.';
