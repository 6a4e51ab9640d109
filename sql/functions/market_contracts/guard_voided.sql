CREATE OR REPLACE FUNCTION medusa_market.guard_voided() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    is_void boolean;
BEGIN
    IF TG_LEVEL = 'STATEMENT' THEN
        is_void := EXISTS (
            SELECT FROM medusa_market.contract_void AS v
                WHERE v.voided_at = transaction_timestamp());
    ELSE
        is_void := EXISTS (
            SELECT FROM medusa_market.contract_void AS v
            WHERE v.revision = OLD.revision AND v.voided_at = transaction_timestamp());
    END IF;
    IF NOT is_void THEN
        RAISE EXCEPTION 'DELETE of % is refused: the table is insert-only, but for what this '
            'transaction writes down as void', TG_TABLE_NAME USING ERRCODE = 'MDLOG';
    END IF;
    RETURN OLD;
END $$;
COMMENT ON FUNCTION medusa_market.guard_voided() IS
    'An agreement is removed only in the transaction that records that it is void, and why.';
