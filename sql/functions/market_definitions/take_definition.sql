CREATE OR REPLACE FUNCTION medusa_market.take_definition(
    envelope_id bigint, contract text, name text, number bigint, document text, is_withdrawal boolean
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox;
    known    medusa_market.definition;
    refusal  text;
BEGIN
    -- One after the other, so that the numbers below are those of all.
    PERFORM FROM medusa.home FOR UPDATE;
    envelope := medusa_market.end_envelope(envelope_id);
    SELECT d.* INTO known FROM medusa_market.definition AS d
    WHERE (d.buyer, d.name) = (envelope.sender, take_definition.name) FOR UPDATE;
    IF known.number >= take_definition.number THEN
        RAISE EXCEPTION 'message % about definition % is older than %, which is known: nothing is '
            'changed', take_definition.number, known.name, known.number USING ERRCODE = 'MD001';
    END IF;
    IF take_definition.is_withdrawal THEN
        IF known.contract IS DISTINCT FROM take_definition.contract THEN
            RAISE EXCEPTION 'no definition % of contract % is known', take_definition.name,
                take_definition.contract USING ERRCODE = 'MD001';
        END IF;
        UPDATE medusa_market.definition AS d SET number = take_definition.number
        WHERE d.definition_id = known.definition_id;
        PERFORM medusa_market.settle_definition(known.definition_id, 'ended', 'withdrawn');
        RETURN 'ended';
    END IF;
    IF known.definition_id IS NOT NULL THEN
        RAISE EXCEPTION 'a definition % is known already, and a name is used once: choose another '
            'name', known.name USING ERRCODE = 'MD001';
    END IF;
    BEGIN
        PERFORM medusa_market.contract_of_boxes(take_definition.contract, envelope.sender,
            medusa_market.here());
    EXCEPTION WHEN SQLSTATE 'MD001' THEN
        refusal := SQLERRM;
    END;
    -- Each home counts its own rounds: the contract may be in force there and not here yet.
    IF refusal IS NOT NULL AND EXISTS (
        SELECT FROM medusa_market.contract_agreement AS a
        JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
        WHERE (a.contract, r.payer, r.provider, r.kind) = (take_definition.contract,
                envelope.sender, medusa_market.here(), 'content')
            AND r.boxes IS NOT NULL AND NOT EXISTS (
            SELECT FROM medusa_market.contract_activation AS v WHERE v.contract = a.contract))
    THEN
        RAISE EXCEPTION 'contract % is in force from the next round on: definition % waits',
            take_definition.contract, take_definition.name USING ERRCODE = 'MD002';
    END IF;
    SELECT coalesce(refusal, CASE
        WHEN count(*) FILTER (WHERE d.state IN ('waiting', 'running')) >= 8 OR count(*) >= 256
            THEN envelope.sender || ' has 8 definitions here, or has had 256: it may make no more '
                'until it withdraws one'
        -- One that begins or ends starts the loop of this home again.
        WHEN count(*) FILTER (WHERE d.noted_at > clock_timestamp() - interval '1 day') >= 16
            THEN envelope.sender || ' has made 16 definitions within a day: it may make no more '
                'until that is over' END)
    INTO refusal FROM medusa_market.definition AS d WHERE d.buyer = envelope.sender;
    IF refusal IS NOT NULL THEN
        PERFORM medusa_market.put_out(envelope.sender, 'defined', 'defined/' || take_definition.name
            || '/refused', jsonb_build_object('contract', take_definition.contract, 'name',
            take_definition.name, 'state', 'refused', 'reason', refusal));
        RETURN 'refused';
    END IF;
    INSERT INTO medusa_market.definition (contract, buyer, name, number, document, state)
    VALUES (take_definition.contract, envelope.sender, take_definition.name,
        take_definition.number, take_definition.document, 'waiting');
    RETURN 'waiting';
END $$;
COMMENT ON FUNCTION medusa_market.take_definition(bigint, text, text, bigint, text, boolean) IS
    'A buyer defines boxes under a contract in force, or withdraws what it has defined.';
