CREATE OR REPLACE FUNCTION medusa_market.check_reads(terms medusa_market.contract_revision)
RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    name text;
BEGIN
    IF (cardinality(terms.reads) BETWEEN 1 AND 1000) IS NOT TRUE THEN
        RAISE EXCEPTION 'contract % names % streams that its provider reads: name 1 to 1,000, or '
            'NULL for none', terms.contract, cardinality(terms.reads) USING ERRCODE = 'MD001';
    END IF;
    FOREACH name IN ARRAY terms.reads LOOP
        IF (name ~ '^[a-z][a-z0-9_]{0,62}/[a-z][a-z0-9_]{0,62}$') IS NOT TRUE THEN
            RAISE EXCEPTION '% is not a name of a stream of a participant: write '
                'PARTICIPANT/STREAM, each beginning with a lower-case letter, with lower-case '
                'letters, digits and _', coalesce(quote_literal(left(name, 150)), 'NULL')
                USING ERRCODE = 'MD001';
        END IF;
        IF split_part(name, '/', 1) IN (terms.payer, terms.provider) THEN
            RAISE EXCEPTION 'contract % reads %, a stream of a party: name streams of third '
                'participants', terms.contract, name USING ERRCODE = 'MD001';
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa_market.check_reads(medusa_market.contract_revision) IS
    'Refuse what names no streams of third participants; so does NULL.';
