CREATE OR REPLACE FUNCTION medusa_market.edit_contract() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET lock_timeout = '3s' SET datestyle = 'ISO, MDY' AS $$
DECLARE
    terms  medusa_market.contract_revision;
    existing record;
BEGIN
    -- The row was read before the lock: what another edit has made of it since is not passed over.
    PERFORM medusa_market.lock_contract(CASE TG_OP
        WHEN 'INSERT' THEN NEW.contract ELSE OLD.contract END);
    SELECT c.revision, c.state, c.partner_proposes, c.active_revision INTO existing
    FROM medusa_api.contract AS c
    WHERE c.contract = CASE TG_OP WHEN 'INSERT' THEN NEW.contract ELSE OLD.contract END;
    IF TG_OP = 'INSERT' AND existing.state <> 'requested' THEN
        RAISE EXCEPTION 'contract % is there already (%): UPDATE it, or choose another name',
            NEW.contract, existing.state USING ERRCODE = 'MD001';
    END IF;
    IF TG_OP <> 'INSERT' AND (existing.revision, existing.state, existing.partner_proposes)
        IS DISTINCT FROM (OLD.revision, OLD.state, OLD.partner_proposes)
    THEN
        RAISE EXCEPTION 'contract % was edited meanwhile: read it again', OLD.contract
            USING ERRCODE = 'MD002';
    END IF;
    IF TG_OP = 'DELETE' THEN
        PERFORM medusa_market.end_contract(OLD.contract);
        RETURN OLD;
    END IF;
    terms := medusa_market.edited_terms(to_jsonb(OLD), to_jsonb(NEW));
    PERFORM medusa_market.propose(terms,
        CASE WHEN TG_OP = 'INSERT' OR NEW.expires_at IS DISTINCT FROM OLD.expires_at
            THEN coalesce(NEW.expires_at, clock_timestamp() + interval '7 days')
            ELSE clock_timestamp() + interval '7 days' END,
        'edited in SQL');
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa_market.edit_contract() IS
    'UPDATE, INSERT and DELETE of a contract, as proposals, withdrawal and notice.';
