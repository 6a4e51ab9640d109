CREATE OR REPLACE FUNCTION medusa_market.with_bounds(move medusa_market.move, lost_us bigint)
RETURNS medusa_market.move
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    through bigint;
BEGIN
    IF move.state = 'released' THEN
        -- What is stated already is not stated again.
        move.from_us := greatest((SELECT o.from_us FROM medusa.fragment_owner AS o
            WHERE o.fragment = move.fragment ORDER BY o.epoch DESC LIMIT 1), (SELECT b.from_ms * 1000
            FROM medusa_market.billing_position AS b WHERE b.contract = move.contract FOR SHARE));
    ELSIF move.state = 'returning' THEN
        move.lost_us := with_bounds.lost_us;
    ELSIF move.state = 'ended' AND move.from_us IS NOT NULL THEN
        -- Paid for is what is final here of the provider's lines: it was acknowledged, or will be.
        SELECT min(least(medusa_market.stable_us(p), (SELECT max(s.to_us) FROM medusa.segment AS s
            WHERE s.line_id = p.line_id AND s.end_version IS NULL))) INTO through
        FROM medusa.fragment AS f CROSS JOIN unnest(f.outputs) AS o (stream)
        JOIN medusa.stream_producer AS p ON (p.stream, p.participant, p.replica) =
            (o.stream, move.partner, move.number)
        WHERE f.id = move.fragment;
        move.to_us := greatest(move.from_us, through);
    END IF;
    RETURN move;
END $$;
COMMENT ON FUNCTION medusa_market.with_bounds(medusa_market.move, bigint) IS
    'A move of this home with the buckets that the provider is paid for, in its new state.';
