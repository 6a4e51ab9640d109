CREATE OR REPLACE FUNCTION medusa_market.definitions_due() RETURNS TABLE (
    definition_id bigint, contract text, buyer text, name text, document text, state text,
    stream text, boxes text[], load_max numeric, running_ms bigint
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT d.definition_id, d.contract, d.buyer, d.name, d.document, d.state, r.stream, r.boxes,
        r.load_max, CASE d.state WHEN 'running' THEN
            medusa.to_ms(clock_timestamp()) - medusa.to_ms(d.settled_at) END
    FROM medusa_market.definition AS d
    LEFT JOIN (medusa_api.contract_in_force AS c
        JOIN medusa_market.contract_revision AS r ON r.revision = c.revision)
        ON (c.contract, c.kind, c.payer, c.provider) =
            (d.contract, 'content', d.buyer, medusa_market.here())
        AND NOT EXISTS (SELECT FROM medusa_market.partner AS p
            WHERE p.participant = d.buyer AND p.is_removed)
    WHERE d.state IN ('waiting', 'running') AND d.buyer <> medusa_market.here()
    ORDER BY d.definition_id
$$;
COMMENT ON FUNCTION medusa_market.definitions_due() IS
    'The definitions of buyers that wait or run, and the terms under which they may; no boxes: '
    'their contract is not in force any more, or lets the buyer define none, or the buyer is no '
    'partner any more.';
