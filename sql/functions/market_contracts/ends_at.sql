CREATE OR REPLACE FUNCTION medusa_market.ends_at(contract text) RETURNS timestamptz
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT min(g.ends_at) FROM (
            SELECT coalesce(min(n.ends_at) FILTER (WHERE n.stated_by <> n.given_by), min(n.ends_at))
                AS ends_at
            FROM medusa_market.contract_notice AS n
            JOIN (
                SELECT r.payer, r.provider FROM medusa_market.contract_agreement AS a
                JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
                WHERE a.contract = ends_at.contract ORDER BY a.number DESC LIMIT 1
            ) AS p ON n.given_by IN (p.payer, p.provider) AND n.stated_by IN (p.payer, p.provider)
            WHERE n.contract = ends_at.contract
            GROUP BY n.given_by
        ) AS g
    );
END $$;
COMMENT ON FUNCTION medusa_market.ends_at(text) IS
    'When a contract ends by notice: the earliest of both parties'' notices, each with the '
    'time of the party that received it (before that, of the party that gave it); NULL: there '
    'is no notice.';
