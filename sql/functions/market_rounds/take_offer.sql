CREATE OR REPLACE FUNCTION medusa_market.take_offer(envelope_id bigint) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    trades   medusa_market.market := medusa_market.begin_market();
    envelope medusa_market.inbox;
    given    jsonb;
    agreed   medusa_market.contract_revision;
    terms    medusa_market.contract_revision;
    waiting  medusa_market.open_offer;
    made     medusa_market.offer;
    here     text := medusa_market.here();
BEGIN
    -- 1 Under which contract, in which round?
    envelope := medusa_market.end_envelope(take_offer.envelope_id);
    given := convert_from(envelope.body, 'UTF8')::jsonb;
    agreed := medusa_market.agreed_revision(given->>'contract');
    IF (agreed.payer, agreed.provider, agreed.kind)
        IS DISTINCT FROM (envelope.sender, here, 'movement')
    THEN
        RAISE EXCEPTION 'there is no contract % under which % may hand load to %',
            left(given->>'contract', 80), envelope.sender, here USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM medusa_market.offer AS o WHERE NOT o.is_own AND o.partner = envelope.sender
            AND o.contract = agreed.contract AND o.nonce = given->>'nonce')
    THEN
        RAISE EXCEPTION 'this offer was made before: it is a replay' USING ERRCODE = 'MD001';
    END IF;
    -- A partner that has lost its home counts from 1 again, and is heard again after an hour, or
    -- once it has announced that its home is another one.
    IF EXISTS (
        SELECT FROM medusa_market.offer AS o
        WHERE NOT o.is_own AND o.partner = envelope.sender AND o.contract = agreed.contract
            AND o.sender_round > (given->>'round')::bigint
            AND o.made_at > clock_timestamp() - interval '1 hour'
            AND o.made_at > coalesce((
                SELECT p.since FROM medusa_market.partner_home AS p
                WHERE p.partner = envelope.sender), '-infinity'))
    THEN
        RAISE EXCEPTION 'it is stale: an offer of a later round than % has come',
            given->>'round' USING ERRCODE = 'MD001';
    END IF;

    -- 2 One at a time, and not too many.
    SELECT * INTO waiting FROM medusa_market.open_offer AS o
    WHERE NOT o.is_own AND o.partner = envelope.sender;
    IF FOUND THEN
        SELECT * INTO made FROM medusa_market.offer AS o WHERE o.offer_id = waiting.offer_id;
        IF (given->>'round')::bigint <= made.sender_round THEN
            RAISE EXCEPTION 'another offer of % is open: one at a time', envelope.sender
                USING ERRCODE = 'MD001';
        END IF;
        PERFORM medusa_market.lapse_offer(waiting, 'the payer has made another');
    END IF;
    IF (SELECT count(*) FROM medusa_market.offer AS o WHERE NOT o.is_own
        AND o.partner = envelope.sender AND o.round = medusa_market.this_round()) >= 64
    THEN
        RAISE EXCEPTION '% has made 64 offers in this round: it may make no more', envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    -- What it offers it has not given: an acceptance that came too late for it binds nobody.
    UPDATE medusa_market.agreed_move AS m SET state = 'lapsed', ended_at = clock_timestamp()
    FROM jsonb_to_recordset(given->'items') AS i (fragment text, partition bigint)
    WHERE (i.fragment, i.partition) = (m.fragment, m.partition)
        AND NOT m.is_given AND m.partner = envelope.sender AND m.state = 'accepted'
        AND NOT EXISTS (SELECT FROM medusa_market.move AS o WHERE o.agreed_id = m.move_id);

    -- 3 It waits for an answer.
    terms := medusa_market.terms_in_force(agreed.contract, given->>'revision');
    INSERT INTO medusa_market.offer (is_own, partner, contract, revision, nonce, sender_round, level,
        price,
        items, load, for_overload, relays, body, round)
    SELECT false, envelope.sender, agreed.contract, given->>'revision', given->>'nonce',
        (given->>'round')::bigint, (given->>'level')::integer,
        medusa_market.price_of(terms, (given->>'level')::integer), count(*),
        sum(i.load), (given->>'for_overload')::boolean, false, envelope.body,
            medusa_market.this_round()
    FROM jsonb_to_recordset(given->'items') AS i (load double precision)
    RETURNING * INTO made;
    INSERT INTO medusa_market.open_offer (offer_id, is_own, partner, expires_at, is_stale)
    VALUES (made.offer_id, false, made.partner,
        clock_timestamp() + 2 * trades.round_ms * interval '1 ms',
        envelope.received_at + trades.round_ms * interval '1 ms' < clock_timestamp());
    DELETE FROM medusa_market.silent_partner AS s WHERE s.partner = envelope.sender;
    PERFORM medusa_market.write_audit('offered', made.contract, NULL, jsonb_build_object('by',
        made.partner, 'nonce', made.nonce, 'level', made.level, 'load', made.load));
    RETURN made.offer_id;
END $$;
COMMENT ON FUNCTION medusa_market.take_offer(bigint) IS
    'A verified offer waits for an answer; refused if the sender may make none, or has made it '
    'before, or has another one open, or has made 64 in this round of this home. A sender''s share '
    '(charge_share) is of a time as long as a round, which begins anywhere in one. Its number.';
