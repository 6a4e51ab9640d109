-- Here because it needs check_epoch. What commit_step has checked is true here already; this is for
-- plain SQL, and costs two look-ups by key.
CREATE OR REPLACE FUNCTION medusa.guard_commit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM medusa.lease AS l
        WHERE (l.fragment, l.partition, l.participant, l.replica, l.lane, l.epoch) =
                (NEW.fragment, NEW.partition, NEW.participant, NEW.replica, NEW.lane, NEW.epoch)
            AND l.expires_at > clock_timestamp())
    THEN
        RAISE EXCEPTION 'no lease of % (%) is held under epoch %: acquire it',
            NEW.fragment, NEW.lane, NEW.epoch USING ERRCODE = 'MDS08';
    END IF;
    PERFORM medusa.check_epoch(NEW.fragment, NEW.partition, NEW.participant, NEW.replica,
        NEW.epoch);
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_commit() IS
    'S8: no commit without an unexpired lease under the newest epoch.';
