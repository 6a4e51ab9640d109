CREATE OR REPLACE FUNCTION medusa_market.owe_statement(statement text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa_market.statement_due (statement) VALUES (owe_statement.statement)
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa_market.owe_statement(text) IS
    'This home''s program is to sign a statement, which it then tells the partner.';
