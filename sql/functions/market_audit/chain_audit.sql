CREATE OR REPLACE FUNCTION medusa_market.chain_audit() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    INSERT INTO medusa_market.audit (what, subject, before, after)
    VALUES (NEW.what, NEW.subject, NEW.before, NEW.after);
    DELETE FROM medusa_market.audit_entry AS e WHERE e.entry_id = NEW.entry_id;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa_market.chain_audit() IS
    'At the end of a transaction its lines go to the end of the audit, in order.';
