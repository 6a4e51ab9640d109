-- What the books are kept by: nobody changes or removes what is written, and entries sum to zero.

DO $$
DECLARE
    logged regclass;
BEGIN
    FOREACH logged IN ARRAY ARRAY[
        'medusa_market.bill', 'medusa_market.bill_answer', 'medusa_market.payment',
        'medusa_market.book_entry', 'medusa_market.book_posting'
    ]::regclass[] LOOP
        EXECUTE format('CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON %s '
            'FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only()', logged);
    END LOOP;
END $$;

CREATE CONSTRAINT TRIGGER sums_to_zero AFTER INSERT ON medusa_market.book_entry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_entry();
CREATE CONSTRAINT TRIGGER sums_to_zero AFTER INSERT ON medusa_market.book_posting
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_entry();
