CREATE OR REPLACE FUNCTION medusa_market.guard_entry() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    entry medusa_market.book_entry;
    found record;
BEGIN
    SELECT e.* INTO entry FROM medusa_market.book_entry AS e WHERE e.entry_id = NEW.entry_id;
    SELECT count(*) AS postings, sum(p.amount) AS rest INTO found
    FROM medusa_market.book_posting AS p WHERE p.entry_id = NEW.entry_id;
    IF entry.made_in <> pg_current_xact_id() THEN
        RAISE EXCEPTION 'entry % was made before: its postings are made with it, write another '
            'entry', entry.key USING ERRCODE = 'MDLOG';
    ELSIF found.postings < 2 OR found.rest <> 0 THEN
        RAISE EXCEPTION 'entry % has % postings, which sum to %: the books sum to zero (S9)',
            entry.key, found.postings, coalesce(found.rest, 0) USING ERRCODE = 'MD001';
    END IF;
    RETURN NULL;
END $$;
COMMENT ON FUNCTION medusa_market.guard_entry() IS
    'S9: when a transaction ends, the postings of each entry that it made sum to zero, and it has '
    'added none to an earlier one.';
