CREATE OR REPLACE FUNCTION medusa_market.deliver_envelopes(
    partner text, envelopes jsonb
) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    IF EXISTS (SELECT FROM jsonb_array_elements(envelopes) AS e
        WHERE e->>'sender' IS DISTINCT FROM deliver_envelopes.partner)
    THEN
        RAISE EXCEPTION '% delivers an envelope of another sender: each delivers its own',
            deliver_envelopes.partner USING ERRCODE = 'MD001';
    END IF;
    RETURN medusa_market.take_envelopes(envelopes);
END $$;
COMMENT ON FUNCTION medusa_market.deliver_envelopes(text, jsonb) IS
    'For the exchange server: take_envelopes of envelopes that the partner has sent itself.';
