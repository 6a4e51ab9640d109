CREATE OR REPLACE FUNCTION medusa.guard_recall() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    stack text;
BEGIN
    -- What the guards of lines and segments go by; so it is written where all else is done, too.
    GET DIAGNOSTICS stack = PG_CONTEXT;
    IF stack !~ '(^|\n)PL/pgSQL function medusa\.(recall_line|follow_recalls|revise_line)\(' THEN
        RAISE EXCEPTION 'a recall is made by medusa.recall alone, and a revision by medusa.revise, '
            'which do all that belongs to it: call that' USING ERRCODE = 'MDS02';
    END IF;
    NEW.made_in := pg_current_xact_id();
    NEW.recalled_at := clock_timestamp();
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_recall() IS
    'S2: final rows are taken back by medusa.recall, by following a recall, and by revisions, '
    'never by plain SQL.';
