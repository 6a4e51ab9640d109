CREATE OR REPLACE FUNCTION medusa_market.guard_message() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made_at timestamptz;
BEGIN
    IF TG_TABLE_NAME = 'offer_lapse' THEN
        SELECT o.made_at INTO made_at FROM medusa_market.offer AS o WHERE o.offer_id = OLD.offer_id;
    ELSE
        made_at := OLD.made_at;
    END IF;
    IF made_at < clock_timestamp() - medusa_market.messages_kept() THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'DELETE of % is refused: it is insert-only for as long as '
        'medusa_market.message_retention says', TG_TABLE_NAME USING ERRCODE = 'MDLOG';
END $$;
COMMENT ON FUNCTION medusa_market.guard_message() IS
    'Raises: an offer or an answer is removed when its retention has passed.';
