CREATE OR REPLACE FUNCTION medusa_market.guard_offer() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa_market.contract_revision := medusa_market.terms_in_force(NEW.contract,
        NEW.revision);
BEGIN
    IF NEW.is_own AND ((medusa_market.here(), NEW.partner)
        IS DISTINCT FROM (terms.payer, terms.provider)
        OR NEW.price IS DISTINCT FROM medusa_market.price_of(terms, NEW.level))
    THEN
        RAISE EXCEPTION 'an offer to % at level % of contract % is refused: it is not one of the prices '
            'that the revision in force allows (S4)', NEW.partner, NEW.level, NEW.contract
            USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa_market.guard_offer() IS
    'S4: an offer has a price of the contract''s range, in the revision that is in force.';
