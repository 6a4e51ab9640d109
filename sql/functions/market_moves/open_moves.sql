CREATE OR REPLACE FUNCTION medusa_market.open_moves() RETURNS TABLE (
    move_id bigint, is_given boolean, partner text, contract text, number bigint, fragment text,
    state text, order_document text, age_ms bigint, is_in_force boolean, bound_ms bigint,
    move_ms bigint, is_deployed boolean, is_recalled boolean,
    earlier bigint[], waits boolean, lacks_room boolean, reads text[], readable text[], method text,
    recovery text
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    WITH readable AS MATERIALIZED (
        SELECT p.partner, array_agg(g.stream) AS streams
        FROM (SELECT DISTINCT o.partner FROM medusa_market.move AS o
            WHERE NOT o.is_given AND o.state <> 'ended') AS p
        CROSS JOIN LATERAL medusa_api.granted_streams(p.partner) AS g
        GROUP BY p.partner
    )
    SELECT m.move_id, m.is_given, m.partner, m.contract, m.number, m.fragment, m.state,
        m.order_document, medusa.to_ms(clock_timestamp()) - medusa.to_ms(m.changed_at),
        r.revision IS NOT NULL AND medusa_market.may_move(r, replace(m.fragment, '/', '.'))
            AND NOT EXISTS (SELECT FROM medusa_market.partner AS p
                WHERE p.participant = m.partner AND p.is_removed),
        r.bound_ms, t.move_ms, f.id IS NOT NULL, EXISTS (
            SELECT FROM medusa.fragment AS g
            JOIN medusa.stream_producer AS q ON q.stream = ANY (g.inputs || g.outputs)
            JOIN medusa.recall AS e ON e.line_id = q.line_id
            WHERE m.is_given AND g.id = m.fragment AND e.recalled_at > m.began_at),
        ARRAY(SELECT o.number FROM medusa_market.move AS o
            WHERE NOT m.is_given AND m.state = 'accepted' AND NOT o.is_given
                AND (o.partner, o.fragment) = (m.partner, m.fragment) AND o.number <> m.number),
        NOT m.is_given AND EXISTS (SELECT FROM medusa_market.agreed_move AS a
            WHERE a.makes_room_for = m.agreed_id AND a.state = 'accepted'
                AND NOT EXISTS (SELECT FROM medusa_market.move AS o
                    WHERE o.agreed_id = a.move_id AND o.state IN ('released', 'returning'))),
        NOT m.is_given AND EXISTS (SELECT FROM medusa_market.agreed_move AS a
            WHERE a.makes_room_for = m.agreed_id AND a.state = 'lapsed'
                AND NOT EXISTS (SELECT FROM medusa_market.move AS o
                    JOIN medusa_market.move_state AS s USING (move_id)
                    WHERE o.agreed_id = a.move_id AND s.state = 'released')),
        coalesce(r.reads, '{}'),
        coalesce((SELECT g.streams FROM readable AS g WHERE NOT m.is_given
            AND g.partner = m.partner), '{}'),
        r.method, r.recovery
    FROM medusa_market.move AS m
    CROSS JOIN medusa_market.market AS t
    CROSS JOIN medusa_market.here() AS h
    LEFT JOIN medusa.fragment AS f ON f.stopped_at IS NULL
        AND f.id = concat_ws('/', 'moved', CASE WHEN m.is_given THEN h ELSE m.partner END,
            m.number, m.fragment)
    LEFT JOIN (medusa_api.contract_in_force AS c
        JOIN medusa_market.contract_revision AS r ON r.revision = c.revision)
        ON (c.contract, c.kind, c.payer, c.provider) = (m.contract, 'movement',
            CASE WHEN m.is_given THEN h ELSE m.partner END,
            CASE WHEN m.is_given THEN m.partner ELSE h END)
    WHERE m.state <> 'ended' OR f.id IS NOT NULL
    ORDER BY m.move_id
$$;
COMMENT ON FUNCTION medusa_market.open_moves() IS
    'The moves that have not ended or are still deployed here, and whether their contracts are in force; '
    'recalled: something that the fragment reads or writes was recalled or revised since; waits: '
    'what makes room for it has not left yet; lacks_room: it will not leave; readable: the streams '
    'of this home that the payer of a fragment that is taken may read.';
