CREATE OR REPLACE FUNCTION medusa_market.add_grant(stream text, partner text, reason text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM medusa_market.check_names(add_grant.partner);
    IF add_grant.partner = medusa_market.here() THEN
        RAISE EXCEPTION '% reads its own streams without a grant', add_grant.partner
            USING ERRCODE = 'MD001';
    END IF;
    IF NOT EXISTS (SELECT FROM medusa.stream AS s WHERE s.name = add_grant.stream) THEN
        RAISE EXCEPTION 'stream % is not deployed here: grant one that is',
            coalesce(quote_literal(left(add_grant.stream, 80)), 'NULL') USING ERRCODE = 'MD001';
    END IF;
    IF medusa_market.is_removed(add_grant.partner) THEN
        RAISE EXCEPTION '% was removed from this home: invite it again first', add_grant.partner
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.stream_grant (stream, partner, reason)
    VALUES (add_grant.stream, add_grant.partner, add_grant.reason) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        PERFORM medusa_market.write_audit('granted stream', add_grant.stream, NULL,
            jsonb_build_object('partner', add_grant.partner, 'reason', add_grant.reason));
        -- Wakes the partner's requests that wait for news.
        PERFORM pg_notify('medusa_progress', '');
        RETURN true;
    END IF;
    RETURN false;
END $$;
COMMENT ON FUNCTION medusa_market.add_grant(text, text, text) IS
    'Let a partner read a stream for a reason; whether that is new.';
