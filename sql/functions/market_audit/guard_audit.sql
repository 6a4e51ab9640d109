CREATE OR REPLACE FUNCTION medusa_market.guard_audit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    head medusa_market.audit_head;
BEGIN
    INSERT INTO medusa_market.audit_head (audit_id, hash) VALUES (0, sha256(''))
        ON CONFLICT DO NOTHING;
    SELECT * INTO head FROM medusa_market.audit_head FOR UPDATE;
    NEW.audit_id := head.audit_id + 1;
    NEW.at := clock_timestamp();
    NEW.who := session_user;
    NEW.previous := head.hash;
    NEW.hash := medusa_market.audit_hash(NEW);
    UPDATE medusa_market.audit_head SET audit_id = NEW.audit_id, hash = NEW.hash;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa_market.guard_audit() IS
    'Number, clock, login and hashes of a line are set here, whatever is given.';
