CREATE OR REPLACE FUNCTION medusa_market.take_envelope(given jsonb, crowded text[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    content  bytea := medusa_market.decoded(given->>'body', 'base64');
    sealed   bytea := medusa_market.decoded(given->>'signature', 'hex');
    sender_name  text := given->>'sender';
    of_kind  text := given->>'kind';
    room     text := medusa_market.room_of(given->>'kind');
    address  inet := coalesce(inet_client_addr(), '0.0.0.0');
    too_long boolean := octet_length(content) > 98304;
    whole    bytea;
    found_id bigint;
BEGIN
    -- 1 Is it an envelope, of somebody known? Nothing is kept of what is not.
    IF jsonb_typeof(given) <> 'object'
        OR medusa_market.is_name(sender_name) IS NOT TRUE
            OR medusa_market.is_name(given->>'receiver') IS NOT TRUE
        OR (of_kind ~ '^[a-z][a-z_]{0,30}$') IS NOT TRUE
        OR (given->>'nonce' ~ '^[0-9a-f]{32}$') IS NOT TRUE
        OR (given->>'sent_at_ms' ~ '^[0-9]{1,18}$') IS NOT TRUE
        OR (given->>'expires_at_ms' ~ '^[0-9]{1,18}$') IS NOT TRUE
        OR content IS NULL OR (octet_length(sealed) = 64) IS NOT TRUE
    THEN
        RETURN 'refused: this is no envelope';
    ELSIF sender_name = medusa_market.here() THEN
        RETURN 'refused: it is sent in the name of ' || sender_name || ', whose home this is';
    ELSIF medusa_market.key_of(sender_name) IS NULL THEN
        RETURN 'refused: no key of ' || sender_name || ' is known here: if it is a partner, let the '
            'owner call medusa_api.learn_key';
    END IF;

    -- 2 Is there room? Unverified ones count by where they came from, whoever they name.
    IF (SELECT count(*) >= 256 OR sum(i.bytes) > 8388608 FROM medusa_market.inbox AS i
            WHERE i.state = 'received' AND i.sender = sender_name
                AND medusa_market.room_of(i.kind) = room AND i.came_from = address)
        OR sender_name || '/' || room = ANY (crowded)
        OR (SELECT count(*) >= 32768 OR sum(i.bytes) > 1073741824 FROM medusa_market.inbox AS i
            WHERE i.state = 'received')
        OR too_long AND (SELECT count(*) >= 200 FROM medusa_market.inbox AS i
            WHERE i.state = 'refused' AND i.sender = sender_name)
    THEN
        RETURN 'full: send it again later';
    END IF;

    -- 3 Put it in. No row that is there already is touched: this transaction may stay open.
    whole := sha256(convert_to(jsonb_build_array(of_kind, sender_name, given->>'receiver',
        given->>'nonce', (given->>'sent_at_ms')::bigint, (given->>'expires_at_ms')::bigint,
        encode(sha256(content), 'hex'), encode(sealed, 'hex'))::text, 'UTF8'));
    INSERT INTO medusa_market.inbox (sender, receiver, kind, nonce, sent_at_ms, expires_at_ms, body,
        signature, hash, state, reason, ended_at, bytes, came_from)
    VALUES (sender_name, given->>'receiver', of_kind, given->>'nonce', (given->>'sent_at_ms')::bigint,
        (given->>'expires_at_ms')::bigint, CASE WHEN too_long THEN '' ELSE content END, sealed,
        whole, CASE WHEN too_long THEN 'refused' ELSE 'received' END,
        CASE WHEN too_long THEN 'it is longer than 96 KiB' END,
        CASE WHEN too_long THEN clock_timestamp() END, octet_length(content), address)
    ON CONFLICT (hash) DO NOTHING RETURNING inbox.envelope_id INTO found_id;
    IF found_id IS NOT NULL THEN
        -- Only what is new: each notification wakes all requests that wait here.
        PERFORM pg_notify('medusa_progress', '');
    ELSIF (SELECT count(*) FROM (SELECT FROM medusa_market.inbox_repeat LIMIT 10000) AS r) < 10000
    THEN
        INSERT INTO medusa_market.inbox_repeat (envelope_id)
        SELECT i.envelope_id FROM medusa_market.inbox AS i WHERE i.hash = whole;
    END IF;
    RETURN CASE WHEN too_long THEN 'refused: it is longer than 96 KiB' ELSE 'taken' END;
END $$;
COMMENT ON FUNCTION medusa_market.take_envelope(jsonb, text[]) IS
    'Put one envelope into the inbox unchanged: taken (also if it arrived before), refused or '
    'full. crowded lists the rooms of senders (sender/room) that are at their limit.';
