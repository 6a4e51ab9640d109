CREATE OR REPLACE FUNCTION medusa_api.learn_past_key(participant text,
    public_key text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given bytea := medusa_market.hex_key(learn_past_key.public_key);
BEGIN
    PERFORM medusa_market.check_names(learn_past_key.participant);
    LOCK TABLE medusa_market.party_key IN SHARE ROW EXCLUSIVE MODE;
    IF (SELECT count(*) FROM medusa_market.party_key) >= 10000 THEN
        RAISE EXCEPTION '10,000 keys are known here: no more is learned' USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM medusa_market.party_key AS k
        WHERE (k.participant, k.public_key) = (learn_past_key.participant, given))
    THEN
        RETURN false;
    END IF;
    INSERT INTO medusa_market.party_key (participant, public_key, because, is_past)
    VALUES (learn_past_key.participant, given, 'a past key, told by the owner', true);
    PERFORM medusa_market.write_audit('past key', learn_past_key.participant, NULL,
        to_jsonb(learn_past_key.public_key));
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_api.learn_past_key(text, text) IS
    'Declare an earlier key of a participant: agreements under it count, nothing new does; '
    'returns whether it was unknown.';
