CREATE OR REPLACE FUNCTION medusa_market.sorted_terms(terms medusa_market.contract_revision)
RETURNS medusa_market.contract_revision
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF terms.fragments IS NOT NULL THEN
        terms.fragments := ARRAY(
            SELECT DISTINCT f COLLATE "C" FROM unnest(terms.fragments) AS f ORDER BY 1);
    END IF;
    IF terms.billed IS NOT NULL THEN
        terms.billed := ARRAY(
            SELECT DISTINCT b COLLATE "C" FROM unnest(terms.billed) AS b ORDER BY 1);
    END IF;
    IF terms.reference IS NOT NULL THEN
        terms.reference := ARRAY(
            SELECT DISTINCT r COLLATE "C" FROM unnest(terms.reference) AS r ORDER BY 1);
    END IF;
    IF terms.boxes IS NOT NULL THEN
        terms.boxes := ARRAY(
            SELECT DISTINCT b COLLATE "C" FROM unnest(terms.boxes) AS b ORDER BY 1);
    END IF;
    IF terms.reads IS NOT NULL THEN
        terms.reads := ARRAY(
            SELECT DISTINCT r COLLATE "C" FROM unnest(terms.reads) AS r ORDER BY 1);
    END IF;
    terms.price_low := trim_scale(terms.price_low);
    terms.price_high := trim_scale(terms.price_high);
    terms.price_step := trim_scale(terms.price_step);
    terms.load_max := trim_scale(terms.load_max);
    terms.penalty := trim_scale(terms.penalty);
    terms.price := trim_scale(terms.price);
    terms.verify := trim_scale(terms.verify);
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa_market.sorted_terms(medusa_market.contract_revision) IS
    'The same terms as a document has them: sets sorted, nothing twice in one, no trailing zeros.';
