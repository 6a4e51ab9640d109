CREATE OR REPLACE FUNCTION medusa.guard_insert_only() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: the table is insert-only, write a new line instead',
        TG_OP, TG_TABLE_NAME USING ERRCODE = 'MDLOG';
END $$;
COMMENT ON FUNCTION medusa.guard_insert_only() IS
    'Raises: rows are never changed or deleted.';
