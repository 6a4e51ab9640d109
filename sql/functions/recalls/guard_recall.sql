CREATE OR REPLACE FUNCTION medusa.guard_recall() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stack text;
BEGIN
    -- What the guards of lines and segments go by; so it is written where all else is done, too.
    GET DIAGNOSTICS stack = PG_CONTEXT;
    IF stack !~ '(^|\n)PL/pgSQL function medusa\.(recall_line|follow_recalls)\(' THEN
        RAISE EXCEPTION 'a recall is made by medusa.recall alone, which does all that belongs to '
            'it: call that' USING ERRCODE = 'MDS02';
    END IF;
    NEW.made_in := pg_current_xact_id();
    NEW.recalled_at := clock_timestamp();
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_recall() IS
    'S2: final rows are taken back by medusa.recall and by following a recall, never by plain '
    'SQL.';
