CREATE OR REPLACE FUNCTION medusa_market.put_message(receiver text, kind text, about text,
    body bytea) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
#variable_conflict use_column
DECLARE
    found bigint;
BEGIN
    PERFORM medusa_market.check_names(put_message.receiver);
    IF (put_message.kind ~ '^[a-z][a-z_]{0,30}$' AND octet_length(put_message.body) <= 98304
        AND char_length(put_message.about) BETWEEN 1 AND 200) IS NOT TRUE
        OR put_message.kind IN ('document', 'withdrawal', 'let_go', 'want', 'notice',
            'refusal', 'status', 'holdings', 'definition', 'defined', 'move', 'moved', 'bill',
            'bill_answer', 'bill_concession')
    THEN
        RAISE EXCEPTION 'a message has a kind, says what it is about, and is 96 KiB long at most'
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.outbox (receiver, kind, about, body)
    VALUES (put_message.receiver, put_message.kind, put_message.about, put_message.body)
    ON CONFLICT (receiver, about) WHERE acknowledged_at IS NULL DO NOTHING
    RETURNING message_id INTO found;
    RETURN found;
END $$;
COMMENT ON FUNCTION medusa_market.put_message(text, text, text, bytea) IS
    'For jobs: send a partner a message of another kind; its number, NULL if the same waits.';
