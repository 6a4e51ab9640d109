CREATE OR REPLACE FUNCTION medusa_market.check_fragments(names text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY names LOOP
        IF medusa_market.is_fragment(name) IS NOT TRUE THEN
            RAISE EXCEPTION '% is not a name of a fragment: write FRAGMENT or NETWORK.FRAGMENT, '
                'each beginning with a lower-case letter, with lower-case letters, digits and _',
                coalesce(quote_literal(left(name, 150)), 'NULL') USING ERRCODE = 'MD001';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa_market.check_fragments(text[]) IS
    'Refuse what names no fragment; so does NULL.';
