CREATE OR REPLACE FUNCTION medusa_market.put_out(receiver text, kind text, about text,
    body jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa_market.outbox (receiver, kind, about, body)
    VALUES (put_out.receiver, put_out.kind, put_out.about, convert_to(put_out.body::text, 'UTF8'))
    ON CONFLICT (receiver, about) WHERE acknowledged_at IS NULL DO NOTHING
$$;
COMMENT ON FUNCTION medusa_market.put_out(text, text, text, jsonb) IS
    'Send a partner a message, once this transaction has committed.';
