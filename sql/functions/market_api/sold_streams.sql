CREATE OR REPLACE FUNCTION medusa_api.sold_streams(partner text)
RETURNS TABLE (stream text, contract text)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT c.stream, c.contract
    FROM medusa_api.contract_in_force AS c
    JOIN medusa.home AS h ON h.participant = c.provider
    WHERE c.kind = 'content' AND c.payer = sold_streams.partner
    UNION ALL
    SELECT d.buyer || '__' || d.name, d.contract
    FROM medusa_market.definition AS d
    JOIN medusa_api.contract_in_force AS c ON c.contract = d.contract AND c.payer = d.buyer
    JOIN medusa_market.contract_revision AS r ON r.revision = c.revision
    JOIN medusa.home AS h ON h.participant = c.provider
    WHERE d.buyer = sold_streams.partner AND d.state = 'running' AND r.boxes IS NOT NULL
    UNION ALL
    -- What a provider needs of a payer, and what it computes for it.
    SELECT s.name, m.contract
    FROM medusa.fragment AS f
    JOIN medusa.assignment AS a ON a.fragment = f.id
    CROSS JOIN medusa.home AS h
    JOIN medusa_market.move AS m ON m.state <> 'ended' AND m.partner = sold_streams.partner
        AND f.id = concat_ws('/', 'moved', CASE WHEN m.is_given THEN h.participant ELSE m.partner END,
            m.number, m.fragment)
    JOIN medusa_api.contract_in_force AS c ON (c.contract, c.kind) = (m.contract, 'movement')
    CROSS JOIN unnest(CASE WHEN a.participant = h.participant THEN f.outputs ELSE f.inputs END)
        AS s (name)
    WHERE f.id LIKE 'moved/%' AND f.stopped_at IS NULL
        AND sold_streams.partner = CASE WHEN a.participant = h.participant
            THEN split_part(f.id, '/', 2) ELSE a.participant END;
END $$;
COMMENT ON FUNCTION medusa_api.sold_streams(text) IS
    'The streams of this home that content contracts in force sell to a partner, those of the boxes '
    'that it defined under them, and those of fragments that move between the two.';
