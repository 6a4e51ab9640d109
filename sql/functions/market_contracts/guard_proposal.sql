CREATE OR REPLACE FUNCTION medusa_market.guard_proposal() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    same medusa_market.contract_proposal := OLD;
BEGIN
    IF OLD.state = 'open' THEN
        same.state := NEW.state;
        same.ended_at := NEW.ended_at;
    ELSIF OLD.let_go_at IS NULL THEN
        same.let_go_at := NEW.let_go_at;
    END IF;
    IF same IS DISTINCT FROM NEW THEN
        RAISE EXCEPTION 'proposal % of contract % keeps what it says: make another',
            OLD.proposal_id, OLD.contract USING ERRCODE = 'MDLOG';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa_market.guard_proposal() IS
    'A proposal ends once, and is released once.';
