CREATE OR REPLACE FUNCTION medusa_market.streams_of_move(move medusa_market.move)
RETURNS TABLE (stream text, participant text, replica integer, is_output boolean)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT i.one->>'stream', i.one->>'participant', (i.one->>'replica')::integer, false
    FROM jsonb_array_elements(CASE WHEN move.order_document <> '' THEN
        move.order_document::jsonb->'inputs' END) AS i (one)
    UNION ALL
    SELECT o.stream, CASE WHEN move.is_given THEN move.partner ELSE h END, move.number::integer, true
    FROM medusa_market.here() AS h
    JOIN medusa.fragment AS f ON f.id = concat_ws('/', 'moved',
        CASE WHEN move.is_given THEN h ELSE move.partner END, move.number, move.fragment)
    CROSS JOIN unnest(f.outputs) AS o (stream)
$$;
COMMENT ON FUNCTION medusa_market.streams_of_move(medusa_market.move) IS
    'The lines that a moved fragment reads, and those that the provider writes, in either home.';
