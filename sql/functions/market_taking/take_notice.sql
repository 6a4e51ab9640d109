CREATE OR REPLACE FUNCTION medusa_market.take_notice(envelope_id bigint, contract text,
    statements jsonb)
RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
    agreed   medusa_market.contract_revision;
    here     text := medusa_market.here();
    notice     record;
    given    timestamptz;
    arrived  timestamptz;
BEGIN
    PERFORM medusa_market.lock_contract(contract);
    envelope := medusa_market.end_envelope(envelope_id);
    agreed := medusa_market.agreed_revision(contract);
    IF agreed.revision IS NOT NULL
        AND (envelope.sender IN (agreed.payer, agreed.provider)) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'there is no contract % with % here', contract, envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    -- The giver's come first: what was heard is of what was given.
    FOR notice IN SELECT s.*, medusa_market.at_ms(s.ends_at_ms) AS ends_at
        FROM jsonb_to_recordset(statements) AS s (given_by text, stated_by text, ends_at_ms bigint,
            signature text, public_key text)
        ORDER BY s.stated_by <> s.given_by, s.ends_at_ms
    LOOP
        IF NOT (notice.given_by IN (here, envelope.sender)
            AND notice.stated_by IN (here, envelope.sender))
        THEN
            RAISE EXCEPTION 'notice of contract % by %, which is not a party to it', contract,
                CASE WHEN notice.given_by IN (here, envelope.sender) THEN notice.stated_by
                    ELSE notice.given_by END USING ERRCODE = 'MD001';
        END IF;
        CONTINUE WHEN EXISTS (
            SELECT FROM medusa_market.contract_notice AS n
            WHERE (n.contract, n.given_by, n.stated_by, n.ends_at)
                = (take_notice.contract, notice.given_by, notice.stated_by, notice.ends_at));
        IF agreed.revision IS NULL AND (
            SELECT count(*) FROM medusa_market.contract_notice AS n
            WHERE envelope.sender IN (n.given_by, n.stated_by) AND NOT EXISTS (
                SELECT FROM medusa_market.contract_agreement AS a
                    WHERE a.contract = n.contract)) >= 64
        THEN
            RAISE EXCEPTION '64 notices of % wait for their contracts here: no more is taken',
                envelope.sender USING ERRCODE = 'MD001';
        END IF;
        IF agreed.revision IS NOT NULL AND (
            SELECT count(*) FROM medusa_market.contract_notice AS n
            WHERE n.contract = take_notice.contract AND n.stated_by = notice.stated_by) >= 16
        THEN
            RAISE EXCEPTION '% has stated 16 ends of contract %: no more is taken',
                notice.stated_by, contract USING ERRCODE = 'MD001';
        END IF;
        IF notice.given_by = here AND notice.stated_by = envelope.sender THEN
            SELECT min(n.ends_at) INTO given FROM medusa_market.contract_notice AS n
            WHERE n.contract = take_notice.contract AND n.given_by = here AND n.stated_by = here;
            IF given IS NULL THEN
                RAISE EXCEPTION 'nobody has given notice of contract % as % says', contract,
                    envelope.sender USING ERRCODE = 'MD001';
            END IF;
            SELECT coalesce(min(o.acknowledged_at), envelope.received_at) INTO arrived
            FROM medusa_market.outbox AS o
            WHERE o.receiver = envelope.sender AND o.kind = 'notice'
                AND o.about LIKE 'notice/' || replace(take_notice.contract, '_', '\_') || '/%'
                AND o.put_at >= given - agreed.notice_ms * interval '1 ms';
            -- Its clock may go an hour before this home's.
            IF notice.ends_at > greatest(given, arrived + agreed.notice_ms * interval '1 ms'
                + interval '1 hour')
            THEN
                RAISE EXCEPTION '% says that the notice of contract % ends at %, later than it has '
                    'to: it came at %', envelope.sender, contract, notice.ends_at, arrived
                    USING ERRCODE = 'MD001';
            END IF;
        END IF;
        PERFORM medusa_market.note_statement('ends ' || contract || ' ' || notice.given_by || ' '
            || notice.ends_at_ms, notice.stated_by, decode(notice.signature, 'hex'),
            decode(notice.public_key, 'hex'));
        PERFORM medusa_market.note_notice(contract, notice.given_by, notice.stated_by, notice.ends_at,
            envelope.received_at);
    END LOOP;
    IF agreed.revision IS NULL THEN
        PERFORM medusa_market.put_out(envelope.sender, 'want', 'want/' || contract,
            jsonb_build_object('contract', contract, 'number', 1));
        RETURN 'kept until what it ends has come';
    END IF;
    PERFORM medusa_market.hear_notices(contract);
    -- A home that has lost its statements receives them.
    IF EXISTS (
        SELECT FROM medusa_market.contract_notice AS n
        JOIN medusa_market.statement AS w ON w.party = n.stated_by AND w.statement
            = 'ends ' || n.contract || ' ' || n.given_by || ' ' || medusa.to_ms(n.ends_at)
        WHERE n.contract = take_notice.contract AND n.stated_by = envelope.sender
            AND NOT EXISTS (
                SELECT FROM jsonb_to_recordset(statements)
                    AS s (given_by text, stated_by text, ends_at_ms bigint)
                WHERE (s.given_by, s.stated_by, medusa_market.at_ms(s.ends_at_ms))
                    = (n.given_by, n.stated_by, n.ends_at)))
    THEN
        PERFORM medusa_market.put_notices(contract, envelope.sender);
    END IF;
    RETURN 'noted';
END $$;
COMMENT ON FUNCTION medusa_market.take_notice(bigint, text, jsonb) IS
    'A partner states when a contract ends, by whose notice, with the signatures, which have '
    'been verified. Notices of unknown contracts are kept, up to 64 of a sender.';
