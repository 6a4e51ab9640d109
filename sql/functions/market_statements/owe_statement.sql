CREATE OR REPLACE FUNCTION medusa_market.owe_statement(statement text) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa_market.statement_due (statement) VALUES (owe_statement.statement)
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa_market.owe_statement(text) IS
    'Have this home''s program sign a statement, which is then sent to the partner.';
