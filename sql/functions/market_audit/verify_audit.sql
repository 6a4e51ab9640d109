CREATE OR REPLACE FUNCTION medusa_market.verify_audit() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    line  medusa_market.audit;
    head  medusa_market.audit_head;
    last  bigint := 0;
    chain bytea := sha256('');
BEGIN
    FOR line IN SELECT * FROM medusa_market.audit ORDER BY audit_id LOOP
        IF line.audit_id <> last + 1 THEN
            RETURN format('line %s of the audit is missing', last + 1);
        END IF;
        IF line.previous <> chain OR line.hash <> medusa_market.audit_hash(line) THEN
            RETURN format('line %s of the audit is not as it was written', line.audit_id);
        END IF;
        last := line.audit_id;
        chain := line.hash;
    END LOOP;
    SELECT * INTO head FROM medusa_market.audit_head;
    IF last < coalesce(head.audit_id, 0) THEN
        RETURN format('line %s of the audit is missing', last + 1);
    END IF;
    IF chain IS DISTINCT FROM coalesce(head.hash, sha256('')) THEN
        RETURN format('line %s of the audit is not the last that was written', last);
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa_market.verify_audit() IS
    'NULL if the audit is whole; else the first line that is missing or not as it was written.';
