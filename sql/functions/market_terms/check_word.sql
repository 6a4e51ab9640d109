CREATE OR REPLACE FUNCTION medusa_market.check_word(what text, word text, known text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (word = ANY (known)) IS NOT TRUE THEN
        RAISE EXCEPTION '% is %: write one of %', what, coalesce(quote_literal(left(word, 80)),
            'missing'), array_to_string(known, ', ') USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.check_word(text, text, text[]) IS
    'Refuse a word that is not one of these.';
