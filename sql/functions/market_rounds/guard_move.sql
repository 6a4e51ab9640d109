CREATE OR REPLACE FUNCTION medusa_market.guard_move() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa_market.contract_revision;
    here  text := medusa_market.here();
    same  medusa_market.agreed_move;
    lies  double precision;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        same := OLD;
        IF (OLD.state, NEW.state) IN (('granted', 'accepted'), ('granted', 'lapsed'),
            ('accepted', 'lapsed'))
        THEN
            same.state := NEW.state;
            same.ended_at := NEW.ended_at;
            IF OLD.state = 'granted' THEN
                same.makes_room_for := NEW.makes_room_for;
            END IF;
        END IF;
        IF same IS DISTINCT FROM NEW THEN
            RAISE EXCEPTION 'move % of % keeps what was agreed', OLD.move_id, OLD.fragment
                USING ERRCODE = 'MDLOG';
        END IF;
        RETURN NEW;
    END IF;
    SELECT r.* INTO terms FROM medusa_market.contract_activation AS v
    JOIN medusa_market.contract_revision AS r ON r.revision = v.revision
    WHERE v.revision = NEW.revision AND v.contract = NEW.contract;
    IF (terms.payer, terms.provider) IS DISTINCT FROM (
            (CASE WHEN NEW.is_given THEN here ELSE NEW.partner END),
            (CASE WHEN NEW.is_given THEN NEW.partner ELSE here END))
        OR NEW.price IS DISTINCT FROM medusa_market.price_of(terms, NEW.level)
        OR NOT medusa_market.may_move(terms, NEW.fragment)
    THEN
        RAISE EXCEPTION 'a move of % at level % of contract % is refused: the contract does not allow '
            'it (S4)', NEW.fragment, NEW.level, NEW.contract USING ERRCODE = 'MD001';
    END IF;
    SELECT coalesce(sum(m.load), 0) INTO lies FROM medusa_market.agreed_move AS m
    WHERE m.contract = NEW.contract AND m.is_given = NEW.is_given AND m.state <> 'lapsed';
    IF lies + NEW.load > terms.load_max * (1 + 1e-6) THEN
        RAISE EXCEPTION 'a move of % under contract % is refused: % are there already of the most load '
            '%', NEW.fragment, NEW.contract, lies, terms.load_max USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa_market.guard_move() IS
    'S4: a move has a price of the contract''s range, is of a fragment that may move, and '
    'brings no more load than the contract permits; an agreed move does not change.';
