CREATE OR REPLACE FUNCTION medusa_market.state(statement text, signature bytea,
    public_key bytea) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    here    text := medusa_market.here();
    what    text := split_part(state.statement, ' ', 1);
    about   text := split_part(state.statement, ' ', 2);
    agreed  medusa_market.contract_revision;
BEGIN
    IF state.public_key IS DISTINCT FROM medusa_market.key_of(here) THEN
        RAISE EXCEPTION 'the key of % is another one than it signed with: let the owner call '
            'medusa_api.replace_key', here USING ERRCODE = 'MD001';
    END IF;
    DELETE FROM medusa_market.statement_due AS d WHERE d.statement = state.statement;
    IF NOT FOUND THEN
        RETURN false;  -- stated meanwhile
    END IF;
    IF what = 'signs' THEN
        PERFORM medusa_market.note_signature(about, here, state.signature, state.public_key);
        RETURN true;
    END IF;
    PERFORM medusa_market.note_statement(state.statement, here, state.signature, state.public_key);
    IF what = 'holds' THEN
        PERFORM medusa_market.put_document(r.revision, r.payer, 'agreement/' || r.revision, NULL,
            NULL)
        FROM medusa_market.contract_agreement AS a
        JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
        WHERE a.revision = about;
    ELSIF what = 'bills' THEN
        PERFORM medusa_market.put_bill(about);
    ELSIF what = 'owes' THEN
        PERFORM medusa_market.put_bill_answer(about, split_part(state.statement, ' ', 3));
    ELSE
        agreed := medusa_market.agreed_revision(about);
        IF agreed.revision IS NOT NULL THEN
            PERFORM medusa_market.put_notices(about,
                CASE here WHEN agreed.payer THEN agreed.provider ELSE agreed.payer END);
        END IF;
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.state(text, bytea, bytea) IS
    'Record that this home has signed a statement that was due, and send it to the partner; '
    'returns whether it was due.';
