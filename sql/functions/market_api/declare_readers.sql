CREATE OR REPLACE FUNCTION medusa_api.declare_readers(stream text, reason text, partners text[])
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    each text;
    has_changed boolean := false;
BEGIN
    IF (declare_readers.reason IN ('reading', 'readers')) IS NOT TRUE THEN
        RAISE EXCEPTION 'contracts declare the reason reading or readers, not %: use '
            'medusa_api.grant_stream', coalesce(quote_literal(left(declare_readers.reason, 80)),
            'NULL') USING ERRCODE = 'MD001';
    END IF;
    FOR each IN
        DELETE FROM medusa.stream_grant AS g
        WHERE (g.stream, g.reason) = (declare_readers.stream, declare_readers.reason)
            AND (g.partner <> ALL (declare_readers.partners)
                OR medusa_market.is_removed(g.partner))
        RETURNING g.partner
    LOOP
        IF NOT medusa_api.may_read(each, declare_readers.stream) THEN
            PERFORM medusa.release_hold(declare_readers.stream, each, 'import');
        END IF;
        PERFORM medusa_market.write_audit('withdrawn stream', declare_readers.stream,
            jsonb_build_object('partner', each, 'reason', declare_readers.reason), NULL);
        has_changed := true;
    END LOOP;
    FOREACH each IN ARRAY declare_readers.partners LOOP
        CONTINUE WHEN medusa_market.is_removed(each);
        has_changed := medusa_market.add_grant(declare_readers.stream, each, declare_readers.reason)
            OR has_changed;
    END LOOP;
    RETURN has_changed;
END $$;
COMMENT ON FUNCTION medusa_api.declare_readers(text, text, text[]) IS
    'For the owner: who may read a stream by the contracts, and nobody else for this reason; whether '
    'that changes anything. Partners that were removed are left out.';
