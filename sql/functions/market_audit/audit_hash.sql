CREATE OR REPLACE FUNCTION medusa_market.audit_hash(line medusa_market.audit) RETURNS bytea
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT sha256(line.previous || convert_to(jsonb_build_array(line.audit_id,
        (extract(epoch FROM line.at) * 1000000)::bigint, line.who, line.what, line.subject,
        line.before, line.after)::text, 'UTF8'))
$$;
COMMENT ON FUNCTION medusa_market.audit_hash(medusa_market.audit) IS
    'The hash of a line of the audit: over its content and the hash of the line before.';
