CREATE OR REPLACE FUNCTION medusa_api.invite_partner(
    partner text, secret_hash text, expires_at timestamptz, replaces_key boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    PERFORM medusa_market.check_names(invite_partner.partner);
    IF invite_partner.partner = medusa_market.here() THEN
        RAISE EXCEPTION '% is the participant of this home: invite a partner',
            invite_partner.partner USING ERRCODE = 'MD001';
    END IF;
    IF (invite_partner.expires_at BETWEEN clock_timestamp() AND clock_timestamp()
            + interval '31 days') IS NOT TRUE
    THEN
        RAISE EXCEPTION 'an invitation expires within 31 days from now, not at %',
            coalesce(invite_partner.expires_at::text, 'NULL') USING ERRCODE = 'MD001';
    END IF;
    DELETE FROM medusa_market.invitation AS i
    WHERE i.partner = invite_partner.partner OR i.expires_at <= clock_timestamp();
    INSERT INTO medusa_market.invitation (secret_hash, partner, replaces_key, expires_at)
    VALUES (medusa_market.hex_key(invite_partner.secret_hash), invite_partner.partner,
        coalesce(invite_partner.replaces_key, false), invite_partner.expires_at);
    PERFORM medusa_market.write_audit('invited partner', invite_partner.partner, NULL,
        to_jsonb(invite_partner.expires_at));
END $$;
COMMENT ON FUNCTION medusa_api.invite_partner(text, text, timestamptz, boolean) IS
    'For the owner: let a participant join with the secret whose SHA-256 this is (64 hexadecimal '
    'digits), once; an earlier invitation of it is over. medusa partner invite calls it.';
