CREATE OR REPLACE FUNCTION medusa_market.check_names(VARIADIC names text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY names LOOP
        IF medusa_market.is_name(name) IS NOT TRUE THEN
            RAISE EXCEPTION '% is not a name: begin with a lower-case letter, continue with '
                'lower-case letters, digits and _, 63 characters at most',
                coalesce(quote_literal(left(name, 80)), 'NULL') USING ERRCODE = 'MD001';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa_market.check_names(text[]) IS
    'Refuse a text that is not a name, or NULL.';
