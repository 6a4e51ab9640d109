CREATE OR REPLACE FUNCTION medusa_market.put_move(move medusa_market.move) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa_market.put_out(move.partner, 'move', 'move/' || move.number || '/' || move.state,
        jsonb_build_object('contract', move.contract, 'number', move.number, 'fragment',
            move.fragment, 'state', move.state, 'order',
            CASE move.state WHEN 'accepted' THEN move.order_document END, 'price',
            trim_scale(move.price)::text, 'from_us', move.from_us, 'to_us', move.to_us, 'lost_us',
            move.lost_us, 'reason', move.reason) || coalesce((
                SELECT jsonb_build_object('commitment', encode(s.commitment, 'hex'),
                    'first_period', s.first_period)
                FROM medusa_market.sample_seed AS s
                WHERE s.move_id = move.move_id AND move.state = 'accepted'), '{}'))
$$;
COMMENT ON FUNCTION medusa_market.put_move(medusa_market.move) IS
    'Send the provider the state of a move of this home.';
