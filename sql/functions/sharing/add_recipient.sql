CREATE OR REPLACE FUNCTION medusa_market.add_recipient(stream text, recipient text, reason text)
RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM medusa.stream_producer AS p
        JOIN medusa.home AS h ON h.participant = p.participant
        WHERE p.stream = add_recipient.stream AND p.replica >= 0)
    THEN
        RAISE EXCEPTION 'stream % is not computed by this home: share one that is',
            coalesce(quote_literal(left(add_recipient.stream, 80)), 'NULL')
            USING ERRCODE = 'MD001';
    END IF;
    IF add_recipient.stream ~ '__all$' THEN
        RAISE EXCEPTION 'stream % cannot be shared: a name that ends with __all is the table of the '
            'tentative rows of another stream', add_recipient.stream USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.recipient_grant (stream, recipient, reason)
    VALUES (add_recipient.stream, add_recipient.recipient, add_recipient.reason)
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM medusa_market.write_audit('shared stream', add_recipient.stream, NULL,
        jsonb_build_object('recipient', add_recipient.recipient, 'reason', add_recipient.reason));
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.add_recipient(text, text, text) IS
    'Let a recipient (*: every one) read a stream for a reason; whether that is new.';
