CREATE OR REPLACE FUNCTION medusa_market.take_status(envelope_id bigint, incarnation uuid,
    digest text)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
    was      uuid;
BEGIN
    envelope := medusa_market.end_envelope(envelope_id);
    SELECT p.incarnation INTO was FROM medusa_market.partner_home AS p
    WHERE p.partner = envelope.sender FOR UPDATE;
    IF was IS DISTINCT FROM take_status.incarnation THEN
        INSERT INTO medusa_market.partner_home AS p (partner, incarnation)
        VALUES (envelope.sender, take_status.incarnation)
        ON CONFLICT (partner) DO UPDATE SET incarnation = EXCLUDED.incarnation,
            since = clock_timestamp();
        PERFORM medusa_market.write_audit('incarnation', envelope.sender, to_jsonb(was),
            to_jsonb(take_status.incarnation));
    END IF;
    IF medusa_market.holdings_digest(envelope.sender) = take_status.digest THEN
        RETURN 'the same';
    END IF;
    PERFORM medusa_market.put_out(envelope.sender, 'holdings', 'holdings/' || page.n,
        jsonb_build_object(
        'after', page.after, 'until', page.until, 'holdings', page.holdings))
    FROM (
        SELECT paged.n, lag(max(paged.contract)) OVER (ORDER BY paged.n) AS after,
            CASE WHEN lead(paged.n) OVER (ORDER BY paged.n) IS NOT NULL THEN max(paged.contract) END
                AS until,
            coalesce(jsonb_agg(jsonb_build_object('contract', paged.contract, 'number',
                paged.number, 'revision', paged.revision, 'ends_at_ms', paged.ends_at_ms)
                ORDER BY paged.contract) FILTER (WHERE paged.contract IS NOT NULL),
                    '[]') AS holdings
        FROM (
            SELECT coalesce((row_number() OVER (ORDER BY h.contract COLLATE "C") - 1) / 256,
                0) AS n,
                h.contract COLLATE "C" AS contract, h.number, h.revision, h.ends_at_ms
            FROM (SELECT 1) AS one
                LEFT JOIN medusa_market.holdings_with(envelope.sender) AS h ON true
        ) AS paged
        GROUP BY paged.n
    ) AS page;
    RETURN 'the agreements here are sent';
END $$;
COMMENT ON FUNCTION medusa_market.take_status(bigint, uuid, text) IS
    'A partner sends one hash of the agreements: if it differs from this home''s, this home '
    'sends its holdings, 256 contracts at a time.';
