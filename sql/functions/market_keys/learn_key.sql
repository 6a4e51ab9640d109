CREATE OR REPLACE FUNCTION medusa_market.learn_key(
    participant text, public_key bytea, because text, replaces boolean DEFAULT false,
    is_succession boolean DEFAULT false
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    known medusa_market.party_key;
BEGIN
    PERFORM medusa_market.check_names(learn_key.participant);
    IF (octet_length(learn_key.public_key) = 32) IS NOT TRUE THEN
        RAISE EXCEPTION 'the key of % has % bytes: an Ed25519 key has 32', learn_key.participant,
            coalesce(octet_length(learn_key.public_key), 0) USING ERRCODE = 'MD001';
    END IF;
    LOCK TABLE medusa_market.party_key IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO known FROM medusa_market.party_key AS k
    WHERE k.participant = learn_key.participant AND NOT k.is_past
    ORDER BY k.key_id DESC LIMIT 1;
    IF known.public_key = learn_key.public_key THEN
        RETURN false;
    END IF;
    IF EXISTS (SELECT FROM medusa_market.key_disowned AS d
        WHERE d.public_key = learn_key.public_key) THEN
        RAISE EXCEPTION 'this key of % was disowned: draw another one', learn_key.participant
            USING ERRCODE = 'MD001';
    END IF;
    IF known.key_id IS NOT NULL AND NOT learn_key.replaces THEN
        RAISE EXCEPTION 'another key of % is known here since %: if it has a new one, let the '
            'owner call medusa_api.replace_key', learn_key.participant, date_trunc('second',
            known.learned_at) USING ERRCODE = 'MD001';
    END IF;
    IF known.key_id IS NULL AND (SELECT count(*) FROM medusa_market.party_key) >= 10000 THEN
        RAISE EXCEPTION '10,000 keys are known here: no more is learned' USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.party_key (participant, public_key, replaces, because, is_succession)
    VALUES (learn_key.participant, learn_key.public_key, known.key_id, learn_key.because,
        learn_key.is_succession);
    PERFORM medusa_market.write_audit('key', learn_key.participant,
        to_jsonb(encode(known.public_key, 'hex')), to_jsonb(encode(learn_key.public_key, 'hex')));
    -- What counts is signed anew, so that who knows the new key alone can verify it.
    INSERT INTO medusa_market.statement_due (statement)
    SELECT 'signs ' || s.revision FROM medusa_market.contract_signature AS s
    JOIN medusa_market.contract_agreement AS a ON a.revision = s.revision
    JOIN medusa.home AS h ON h.participant = s.party
    WHERE s.party = learn_key.participant
    UNION
    SELECT s.statement FROM medusa_market.statement AS s
        JOIN medusa.home AS h ON h.participant = s.party
    WHERE s.party = learn_key.participant
    ON CONFLICT DO NOTHING;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.learn_key(text, bytea, text, boolean, boolean) IS
    'Note whose key this is; whether it is new. Another key than the known one is refused, unless '
    'it replaces it on purpose, which is the owner''s to say, or that of the key before.';
