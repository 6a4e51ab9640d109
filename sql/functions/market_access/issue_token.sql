CREATE OR REPLACE FUNCTION medusa_market.issue_token(
    partner text, public_key bytea, nonce text, keep_ms bigint, token_hash bytea, lifetime_ms bigint
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    clock timestamptz := clock_timestamp();
BEGIN
    IF issue_token.partner = medusa_market.here() THEN
        RAISE EXCEPTION '% needs no token of its own home', issue_token.partner
            USING ERRCODE = 'MD001';
    END IF;
    IF medusa_market.is_current_key(issue_token.partner, issue_token.public_key) IS NOT TRUE THEN
        RAISE EXCEPTION 'the key is not the one that counts for % here: replace it there or here',
            issue_token.partner USING ERRCODE = 'MD001';
    END IF;
    IF (issue_token.lifetime_ms BETWEEN 1 AND 3600000) IS NOT TRUE
        OR (issue_token.keep_ms BETWEEN 1 AND 3600000) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a token lasts for 1 ms to 1 h, and its assertion is kept as long'
            USING ERRCODE = 'MD001';
    END IF;

    -- What is over is removed by the partner that it is of: its requests pay for it.
    DELETE FROM medusa_market.used_assertion AS u
    WHERE u.partner = issue_token.partner AND u.expires_at <= clock;
    DELETE FROM medusa_market.access_token AS t
    WHERE t.partner = issue_token.partner AND t.expires_at <= clock;
    IF (SELECT count(*) FROM medusa_market.used_assertion AS u
        WHERE u.partner = issue_token.partner) >= 1000
    THEN
        RETURN false;
    END IF;
    INSERT INTO medusa_market.used_assertion (partner, nonce, expires_at)
    VALUES (issue_token.partner, issue_token.nonce, clock + keep_ms * interval '1 ms')
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION '% has used this assertion before: sign another', issue_token.partner
            USING ERRCODE = 'MD001';
    END IF;
    -- A partner has a few programs; the tokens that it has forgotten are the oldest.
    DELETE FROM medusa_market.access_token AS t
    WHERE t.hash IN (
        SELECT o.hash FROM medusa_market.access_token AS o
        WHERE o.partner = issue_token.partner
        ORDER BY o.expires_at DESC OFFSET 63);
    INSERT INTO medusa_market.access_token (hash, partner, public_key, issued_at, expires_at)
    VALUES (issue_token.token_hash, issue_token.partner, issue_token.public_key, clock,
        clock + lifetime_ms * interval '1 ms');
    UPDATE medusa_market.partner AS p
    SET confirmed_at = coalesce(p.confirmed_at, clock), heard_at = clock
    WHERE p.participant = issue_token.partner;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.issue_token(text, bytea, text, bigint, bytea, bigint) IS
    'Store the hash of a token for a partner whose signature the exchange server has verified. An '
    'assertion is refused the second time. False: the partner has requested 1,000 within keep_ms.';
