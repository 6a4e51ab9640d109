CREATE OR REPLACE FUNCTION medusa_market.round_is_due() RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT coalesce(max(r.opened_at) + coalesce(max(m.round_ms), 60000) * interval '1 ms'
            <= clock_timestamp(), true)
        AND (EXISTS (
                SELECT FROM medusa_market.contract_agreement AS a
                JOIN medusa_market.contract_revision AS t ON t.revision = a.revision
                WHERE upper(t.validity) > clock_timestamp()
                    AND coalesce(medusa_market.ends_at(a.contract) > clock_timestamp(), true))
            OR EXISTS (SELECT FROM medusa_market.open_offer)
            OR EXISTS (SELECT FROM medusa_market.agreed_move AS g WHERE g.state <> 'lapsed'))
    FROM (SELECT 1) AS one LEFT JOIN medusa_market.market AS m ON true
    LEFT JOIN LATERAL (
        SELECT o.opened_at FROM medusa_market.round AS o
            ORDER BY o.number DESC LIMIT 1) AS r ON true
$$;
COMMENT ON FUNCTION medusa_market.round_is_due() IS
    'Whether a round is to be opened now: its time has passed, and a contract that was agreed has '
    'not ended, or something is offered or agreed.';
