CREATE OR REPLACE FUNCTION medusa.shared_version_at(
    token_id bigint, stream text, at_ms bigint, is_after boolean
) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT v.version
    FROM medusa_api.shared_streams(shared_version_at.token_id) AS g
    CROSS JOIN LATERAL medusa.shared_line(g.stream) AS p
    CROSS JOIN LATERAL (
        (SELECT u.version FROM medusa.line_version AS u
        WHERE u.line_id = p.line_id AND NOT shared_version_at.is_after
            AND u.made_at < to_timestamp((shared_version_at.at_ms + 1) / 1000.0)
        ORDER BY u.made_at DESC, u.version DESC LIMIT 1)
        UNION ALL
        (SELECT u.version FROM medusa.line_version AS u
        WHERE u.line_id = p.line_id AND shared_version_at.is_after
            AND u.made_at >= to_timestamp(shared_version_at.at_ms / 1000.0)
        ORDER BY u.made_at, u.version LIMIT 1)
    ) AS v
    WHERE g.stream = shared_version_at.stream
$$;
COMMENT ON FUNCTION medusa.shared_version_at(bigint, text, bigint, boolean) IS
    'For the exchange server: the last version of a shared stream that this home had reached at a time '
    'of its clock, or the first one that it reached from then on; NULL: none.';
