CREATE OR REPLACE FUNCTION medusa_market.note_statement(
    statement text, party text, signature bytea, public_key bytea
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa_market.statement (statement, party, signature, public_key)
    VALUES (note_statement.statement, note_statement.party, note_statement.signature,
        note_statement.public_key)
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa_market.note_statement(text, text, bytea, bytea) IS
    'Keep a statement whose signature was verified with this key.';
