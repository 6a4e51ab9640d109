CREATE OR REPLACE FUNCTION medusa_market.sampled_lines(
    contract text, period bigint, revision text, begins_us bigint)
RETURNS TABLE (
    move_id bigint, is_given boolean, partner text, number bigint, fragment text,
    order_document text, from_us bigint, to_us bigint, commitment bytea, first_period bigint,
    seed bytea, stream text, width_us bigint, stable_us bigint, through_us bigint,
    open_us bigint, hold_ms bigint, is_held boolean, verify numeric
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT m.move_id, m.is_given, m.partner, m.number, m.fragment, m.order_document, m.from_us,
        m.to_us, c.commitment, c.first_period,
        medusa_market.revealed_seed(m.move_id, sampled_lines.period), o.stream, s.width_us,
        medusa_market.stable_us(p), n.through_us, 1000 * coalesce((SELECT min(b.from_ms)
            FROM medusa_api.bills AS b
            WHERE b.contract = m.contract AND b.state IN ('billed', 'disputed')), (SELECT b.from_ms
            FROM medusa_market.billing_position AS b WHERE b.contract = m.contract)),
        r.hold_ms_max,
        EXISTS (SELECT FROM medusa.hold AS h WHERE h.purpose = 'samples'
            AND h.holder = 'contract:' || m.contract || '/' || m.number || '/' || o.stream),
        r.verify
    FROM medusa_market.move AS m
    JOIN medusa_market.sample_seed AS c ON c.move_id = m.move_id
    CROSS JOIN LATERAL medusa_market.streams_of_move(m) AS o
    JOIN medusa.stream AS s ON s.name = o.stream
    LEFT JOIN medusa.stream_producer AS p ON (p.stream, p.participant, p.replica) =
        (o.stream, o.participant, o.replica)
    LEFT JOIN medusa_market.sample_position AS n ON (n.move_id, n.stream) = (m.move_id, o.stream)
    JOIN medusa_market.contract_agreement AS a ON (a.contract, a.revision) =
        (m.contract, sampled_lines.revision)
    JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
    WHERE m.contract = sampled_lines.contract AND o.is_output AND m.from_us IS NOT NULL
        AND (m.to_us IS NULL OR m.to_us > sampled_lines.begins_us OR EXISTS (
            SELECT FROM medusa.hold AS h WHERE h.purpose = 'samples'
                AND h.holder = 'contract:' || m.contract || '/' || m.number || '/' || o.stream))
    ORDER BY m.number, o.stream
$$;
COMMENT ON FUNCTION medusa_market.sampled_lines(text, bigint, text, bigint) IS
    'For jobs: the streams that released moves of a contract write and that are paid for in a period, '
    'or are held; what their payer has committed, in its home the seed of the period, up to where '
    'samples are recomputed, and where the first period begins that is not settled.';
