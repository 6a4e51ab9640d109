CREATE OR REPLACE FUNCTION medusa_market.write_audit(
    what text, subject text, before jsonb, after jsonb
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa_market.audit_entry (what, subject, before, after)
    VALUES (write_audit.what, write_audit.subject, medusa_market.audited(write_audit.before),
        medusa_market.audited(write_audit.after))
$$;
COMMENT ON FUNCTION medusa_market.write_audit(text, text, jsonb, jsonb) IS
    'Add a line to the audit, as soon as this transaction ends well.';
