CREATE OR REPLACE FUNCTION medusa.shared_versions(
    token_id bigint, stream text, after bigint, until bigint, versions_max integer
) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(jsonb_agg(jsonb_build_object('version', v.version, 'stable_us', v.stable_us,
        'made_at_ms', medusa.to_ms(v.made_at)) ORDER BY v.version), '[]')
    FROM medusa_api.shared_streams(shared_versions.token_id) AS g
    CROSS JOIN LATERAL medusa.shared_line(g.stream) AS p
    CROSS JOIN LATERAL (
        (SELECT u.* FROM medusa.line_version AS u
        WHERE u.line_id = p.line_id AND u.version <= shared_versions.after
        ORDER BY u.version DESC LIMIT 1)
        UNION ALL
        (SELECT u.* FROM medusa.line_version AS u
        WHERE u.line_id = p.line_id AND u.version > shared_versions.after
            AND u.version <= shared_versions.until
        ORDER BY u.version LIMIT least(shared_versions.versions_max, 10000))
    ) AS v
    WHERE g.stream = shared_versions.stream
$$;
COMMENT ON FUNCTION medusa.shared_versions(bigint, text, bigint, bigint, integer) IS
    'For the exchange server: the last version of a shared stream that is not after one, and those '
    'that follow it: where the stable prefix ended, and when this home reached them.';
