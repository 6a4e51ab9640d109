CREATE OR REPLACE FUNCTION medusa_market.charge_contracts(envelope medusa_market.inbox) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    given  jsonb := convert_from(envelope.body, 'UTF8')::jsonb;
    named  text;
    lately bigint;
    kept   bigint;
BEGIN
    IF envelope.kind = 'document' THEN
        named := (given->>'document')::jsonb->>'contract';
    ELSE
        named := given->>'contract';
    END IF;
    -- Its first edit is this one, whose lock is held: nobody else has named it before. What both
    -- have signed this home has named itself, and lost.
    UPDATE medusa_market.contract_order AS o SET brought_by = envelope.sender
    WHERE o.contract = named AND o.edits = 1 AND o.brought_by IS NULL
        AND NOT (envelope.kind = 'document'
            AND (SELECT count(*) FROM jsonb_object_keys(given->'signatures')) = 2);
    IF FOUND AND (SELECT count(*) FROM medusa_market.contract_order AS o
        WHERE o.brought_by = envelope.sender) > 2048
    THEN
        PERFORM medusa_market.refuse_too_much(format(
            '%s has named 2,048 contracts here: it may name no '
            'more', envelope.sender));
    END IF;
    IF envelope.kind <> 'document' OR given->>'proposal' IS NULL THEN
        RETURN;
    END IF;
    SELECT count(*) INTO lately FROM medusa_market.contract_proposal AS p
    WHERE p.proposed_by = envelope.sender AND p.made_at > clock_timestamp() - interval '1 day';
    IF lately >= 4096 THEN
        PERFORM medusa_market.refuse_too_much(format(
            '%s has proposed 4,096 times within a day: it may '
            'propose no more until that is over', envelope.sender));
    END IF;
    SELECT sum(octet_length(r.document)) INTO kept FROM medusa_market.contract_revision AS r
    WHERE r.revision IN (
            SELECT p.revision FROM medusa_market.contract_proposal AS p
            WHERE p.proposed_by = envelope.sender)
        AND NOT EXISTS (
            SELECT FROM medusa_market.contract_agreement AS a WHERE a.revision = r.revision);
    IF kept > 33554432 THEN
        PERFORM medusa_market.refuse_too_much(format(
            'what %s has proposed and nobody agreed on fills its '
            '32 MiB: agree on something with it, or make a contract yourself', envelope.sender));
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.charge_contracts(medusa_market.inbox) IS
    'Refuse contracts beyond the 2,048 that a partner may name here, proposals beyond 4,096 a '
    'day, and beyond 32 MiB of terms that were never agreed. A document with both signatures '
    'is not a proposal.';
