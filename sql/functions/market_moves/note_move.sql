CREATE OR REPLACE FUNCTION medusa_market.note_move() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NOT (
        (OLD.state, NEW.state) IN (('accepted', 'started'), ('accepted', 'ended'),
            ('started', 'released'), ('started', 'ended'), ('released', 'returning'),
            ('returning', 'ended'))
        AND (OLD.move_id, OLD.is_given, OLD.partner, OLD.contract, OLD.number, OLD.fragment,
                OLD.order_document, OLD.agreed_id, OLD.began_at) IS NOT DISTINCT FROM
            (NEW.move_id, NEW.is_given, NEW.partner, NEW.contract, NEW.number, NEW.fragment,
                NEW.order_document, NEW.agreed_id, NEW.began_at))
    THEN
        RAISE EXCEPTION 'move % of % is %: it does not become %', OLD.number, OLD.fragment,
            OLD.state, NEW.state USING ERRCODE = 'MDLOG';
    END IF;
    INSERT INTO medusa_market.move_state (move_id, state, reason)
    VALUES (NEW.move_id, NEW.state, NEW.reason);
    PERFORM pg_notify('medusa_progress', '');
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa_market.note_move() IS
    'The states of a move come in order, each once, and each is noted with its reason.';
