CREATE OR REPLACE FUNCTION medusa_market.join_partner(
    secret_hash bytea, partner text, public_key bytea, url text, pin text
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    open_one medusa_market.invitation;
BEGIN
    SELECT * INTO open_one FROM medusa_market.invitation AS i
    WHERE (i.secret_hash, i.partner) = (join_partner.secret_hash, join_partner.partner)
        AND i.expires_at > clock_timestamp()
        AND coalesce(i.public_key, join_partner.public_key) = join_partner.public_key
    FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the invitation is not for %, or is over: let the operator of % invite it '
            'again', left(join_partner.partner, 63), medusa_market.here() USING ERRCODE = 'MD001';
    END IF;
    IF medusa_market.moves_of(join_partner.partner) >= 64 THEN
        RAISE EXCEPTION '% has joined or moved 64 times within a day: try again tomorrow',
            join_partner.partner USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa_market.learn_key(join_partner.partner, join_partner.public_key,
        'joined by invitation', open_one.replaces_key);
    PERFORM medusa_market.set_partner(join_partner.partner, join_partner.url, join_partner.pin,
        clock_timestamp() + interval '10 minutes');
    UPDATE medusa_market.invitation AS i SET public_key = join_partner.public_key
    WHERE i.secret_hash = join_partner.secret_hash;
END $$;
COMMENT ON FUNCTION medusa_market.join_partner(bytea, text, bytea, text, text) IS
    'For the exchange server: an invited participant joins with its key and its address. It is a '
    'partner when it receives a token within 10 minutes; with the same key it may join again.';
