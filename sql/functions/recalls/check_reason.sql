CREATE OR REPLACE FUNCTION medusa.check_reason(because text, who text) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (char_length(because) <= 1000 AND char_length(who) <= 200
        AND btrim(because) <> '' AND btrim(who) <> ''
        AND because || who !~ '[[:cntrl:]]') IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a recall says why in one line of 1 to 1,000 characters, and who in 200'
            USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa.check_reason(text, text) IS
    'Raises unless the reason and the person are given, short, and one line each.';
