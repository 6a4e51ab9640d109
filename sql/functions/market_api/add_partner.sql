CREATE OR REPLACE FUNCTION medusa_api.add_partner(
    partner text, public_key text, url text, pin text, replaces_key boolean DEFAULT false,
    is_confirmed boolean DEFAULT true
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM medusa_market.learn_key(add_partner.partner,
        medusa_market.hex_key(add_partner.public_key), 'added by the owner',
        coalesce(add_partner.replaces_key, false));
    PERFORM medusa_market.set_partner(add_partner.partner, add_partner.url, add_partner.pin,
        CASE WHEN NOT add_partner.is_confirmed THEN clock_timestamp() + interval '10 minutes' END);
END $$;
COMMENT ON FUNCTION medusa_api.add_partner(text, text, text, text, boolean, boolean) IS
    'For the owner: a partner elsewhere, with its key (64 hexadecimal digits), the URL of its '
    'exchange server and the SHA-256 of the key of its certificate (NULL: a public authority''s). '
    'One that was removed is a partner again. Not confirmed, it lapses after 10 minutes.';
