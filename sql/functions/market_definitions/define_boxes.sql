CREATE OR REPLACE FUNCTION medusa_market.define_boxes(contract text, name text, document text)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    here    text := medusa_market.here();
    seller  text;
    known   medusa_market.definition;
    counted bigint;
BEGIN
    PERFORM medusa_market.check_names(define_boxes.name);
    SELECT c.provider INTO seller FROM medusa_api.contract_in_force AS c
    WHERE c.contract = define_boxes.contract AND c.payer = here;
    PERFORM medusa_market.contract_of_boxes(define_boxes.contract, here, seller);
    SELECT d.* INTO known FROM medusa_market.definition AS d
    WHERE (d.buyer, d.name) = (here, define_boxes.name) FOR UPDATE;
    IF known.definition_id IS NOT NULL AND (known.contract <> define_boxes.contract
        OR known.document <> define_boxes.document)
    THEN
        RAISE EXCEPTION 'a definition % is known already, and a name is used once: choose another '
            'name', define_boxes.name USING ERRCODE = 'MD001';
    END IF;
    IF known.definition_id IS NULL THEN
        INSERT INTO medusa_market.definition (contract, buyer, name, number, document, state)
        VALUES (define_boxes.contract, here, define_boxes.name, 1, define_boxes.document, 'sent');
        counted := 1;
    ELSIF known.state IN ('refused', 'ended') THEN
        RAISE EXCEPTION 'definition % has been %: choose another name', known.name, known.state
            USING ERRCODE = 'MD001';
    ELSE
        RETURN known.number;
    END IF;
    PERFORM medusa_market.put_out(seller, 'definition', 'definition/' || define_boxes.name || '/'
        || counted, define_boxes.document::jsonb || jsonb_build_object('number', counted));
    RETURN counted;
END $$;
COMMENT ON FUNCTION medusa_market.define_boxes(text, text, text) IS
    'For jobs: send the seller boxes over the stream that a contract sells; the same again is '
    'nothing.';
