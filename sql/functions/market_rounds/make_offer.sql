CREATE OR REPLACE FUNCTION medusa_market.make_offer(made_offer jsonb,
    trades medusa_market.market) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    message bytea := convert_to(made_offer->>'body', 'UTF8');
    given jsonb := (made_offer->>'body')::jsonb;
    terms medusa_market.contract_revision;
    made  medusa_market.offer;
    other text;
BEGIN
    terms := medusa_market.terms_in_force(given->>'contract', given->>'revision');
    SELECT i.fragment INTO other FROM jsonb_to_recordset(given->'items') AS i (fragment text)
    WHERE NOT medusa_market.may_move(terms, i.fragment) LIMIT 1;
    IF terms.revision IS NULL OR other IS NOT NULL THEN
        RAISE EXCEPTION 'contract % does not let % move: read it again', given->>'contract',
            coalesce(other, 'anything') USING ERRCODE = 'MD002';
    END IF;
    INSERT INTO medusa_market.offer (is_own, partner, contract, revision, nonce, sender_round, level,
        price,
        items, load, for_overload, relays, body, because, round)
    SELECT true, terms.provider, terms.contract, terms.revision, given->>'nonce',
        (given->>'round')::bigint, (given->>'level')::integer,
        medusa_market.price_of(terms, (given->>'level')::integer), count(*), sum(i.load),
        (given->>'for_overload')::boolean, (made_offer->>'relays')::boolean, message,
        made_offer->>'because', medusa_market.this_round()
    FROM jsonb_to_recordset(given->'items') AS i (load double precision)
    RETURNING * INTO made;
    INSERT INTO medusa_market.open_offer (offer_id, is_own, partner, expires_at)
    VALUES (made.offer_id, true, made.partner,
        clock_timestamp() + trades.round_ms * interval '1 ms');
    INSERT INTO medusa_market.open_item (fragment, partition, offer_id)
    SELECT i.fragment, i.partition, made.offer_id
    FROM jsonb_to_recordset(given->'items') AS i (fragment text, partition bigint);
    INSERT INTO medusa_market.outbox (receiver, kind, about, body)
    VALUES (made.partner, 'offer', 'offer/' || made.nonce, message);
    PERFORM medusa_market.write_audit('offers', made.contract, NULL, jsonb_build_object('to',
        made.partner, 'nonce', made.nonce, 'level', made.level, 'load', made.load));
EXCEPTION WHEN unique_violation THEN
    RAISE EXCEPTION 'another offer to % is open, or of a fragment in it: one at a time',
        terms.provider USING ERRCODE = 'MD002';
END $$;
COMMENT ON FUNCTION medusa_market.make_offer(jsonb, medusa_market.market) IS
    'Make an offer, which is sent once this transaction has ended well.';
