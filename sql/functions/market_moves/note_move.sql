CREATE OR REPLACE FUNCTION medusa_market.note_move() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NOT (
        (OLD.state = NEW.state OR (OLD.state, NEW.state) IN (('accepted', 'started'), ('accepted', 'ended'),
            ('started', 'released'), ('started', 'ended'), ('released', 'returning'),
            ('returning', 'ended')))
        AND (OLD.move_id, OLD.is_given, OLD.partner, OLD.contract, OLD.number, OLD.fragment,
                OLD.order_document, OLD.agreed_id, OLD.began_at, OLD.price) IS NOT DISTINCT FROM
            (NEW.move_id, NEW.is_given, NEW.partner, NEW.contract, NEW.number, NEW.fragment,
                NEW.order_document, NEW.agreed_id, NEW.began_at, NEW.price)
        AND coalesce(NEW.from_us = OLD.from_us, OLD.from_us IS NULL)
        AND coalesce(NEW.to_us = OLD.to_us, OLD.to_us IS NULL)
        AND coalesce(NEW.lost_us = OLD.lost_us, OLD.lost_us IS NULL))
    THEN
        RAISE EXCEPTION 'move % of % is %: it does not become %', OLD.number, OLD.fragment,
            OLD.state, NEW.state USING ERRCODE = 'MDLOG';
    END IF;
    IF TG_OP = 'INSERT' OR OLD.state <> NEW.state THEN
        INSERT INTO medusa_market.move_state (move_id, state, reason)
        VALUES (NEW.move_id, NEW.state, NEW.reason);
    END IF;
    PERFORM pg_notify('medusa_progress', '');
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa_market.note_move() IS
    'The states of a move come in order, each once, and each is noted with its reason; what is '
    'billed is noted once.';
