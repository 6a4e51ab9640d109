CREATE OR REPLACE FUNCTION medusa_market.terms_of_move(contract text, payer text, provider text,
    fragment text) RETURNS medusa_market.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa_market.contract_revision;
BEGIN
    SELECT r.* INTO terms
    FROM medusa_api.contract_in_force AS c
    JOIN medusa_market.contract_revision AS r ON r.revision = c.revision
    WHERE (c.contract, c.kind, c.payer, c.provider) = (terms_of_move.contract, 'movement',
            terms_of_move.payer, terms_of_move.provider)
        AND medusa_market.may_move(r, replace(terms_of_move.fragment, '/', '.'));
    IF NOT FOUND THEN
        -- One sentence, so that nobody learns which contracts others have.
        RAISE EXCEPTION 'no contract % in force lets % hand % over to %: name a movement contract '
            'whose moves have it', terms_of_move.contract, terms_of_move.payer,
            terms_of_move.fragment, coalesce(terms_of_move.provider, 'anybody') USING ERRCODE = 'MD001';
    END IF;
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa_market.terms_of_move(text, text, text, text) IS
    'The terms of a movement contract in force under which the payer may hand a fragment over.';
