CREATE OR REPLACE FUNCTION medusa_market.expire_proposals() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    proposal medusa_market.contract_proposal;
    ended    integer := 0;
    now_is   timestamptz := clock_timestamp();
    those    text[];
BEGIN
    -- Locks of contracts come before the audit's; what somebody edits now expires the next time.
    those := ARRAY(
        SELECT o.contract FROM medusa_market.contract_order AS o
        WHERE o.contract IN (
            SELECT p.contract FROM medusa_market.contract_proposal AS p
            WHERE p.state = 'open' AND p.expires_at <= now_is)
        ORDER BY o.contract FOR UPDATE SKIP LOCKED);
    FOR proposal IN SELECT * FROM medusa_market.contract_proposal AS p
        WHERE p.state = 'open' AND p.expires_at <= now_is AND p.contract = ANY (those)
        ORDER BY p.contract, p.proposal_id
    LOOP
        PERFORM medusa_market.end_proposal(proposal, 'expired');
        ended := ended + 1;
    END LOOP;
    RETURN ended;
END $$;
COMMENT ON FUNCTION medusa_market.expire_proposals() IS
    'Proposals whose time has passed are open no more; how many.';
