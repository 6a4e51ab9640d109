CREATE OR REPLACE FUNCTION medusa_market.audited(given jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS $$
    SELECT CASE WHEN octet_length(given::text) <= 2048 THEN given
        ELSE jsonb_strip_nulls(jsonb_build_object('bytes', octet_length(given::text),
            'sha256', encode(sha256(convert_to(given::text, 'UTF8')), 'hex'),
            'revision', left(given->>'revision', 64))) END
$$;
COMMENT ON FUNCTION medusa_market.audited(jsonb) IS
    'A value as the audit keeps it: one that is longer than 2 KiB as its hash.';
