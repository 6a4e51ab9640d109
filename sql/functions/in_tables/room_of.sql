CREATE OR REPLACE FUNCTION medusa_market.room_of(kind text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$$ SELECT CASE WHEN kind IN ('offer', 'answer') THEN 'market' ELSE 'contracts' END $$;
COMMENT ON FUNCTION medusa_market.room_of(text) IS
    'Which room of a sender''s in the inbox an envelope takes: offers fill none but their own.';
