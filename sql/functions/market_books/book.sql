CREATE OR REPLACE FUNCTION medusa_market.book(entries jsonb) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one    jsonb;
    made   bigint;
    booked bigint := 0;
BEGIN
    FOR one IN SELECT e FROM jsonb_array_elements(entries) AS e LOOP
        INSERT INTO medusa_market.book_entry (key, kind, partner, currency, contract, revision,
            period, statement, payment_id)
        VALUES (one->>'key', one->>'kind', one->>'partner', one->>'currency', one->>'contract',
            one->>'revision', (one->>'period')::bigint, one->>'statement',
            (one->>'payment_id')::bigint)
        ON CONFLICT (key) DO NOTHING RETURNING entry_id INTO made;
        CONTINUE WHEN NOT FOUND;
        INSERT INTO medusa_market.book_posting (entry_id, account, amount)
        SELECT made, p.account, p.amount
        FROM jsonb_to_recordset(one->'postings') AS p (account text, amount numeric);
        booked := booked + 1;
    END LOOP;
    RETURN booked;
END $$;
COMMENT ON FUNCTION medusa_market.book(jsonb) IS
    'Write entries into the books; one whose key is known is there already. How many were written.';
