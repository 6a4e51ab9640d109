CREATE OR REPLACE FUNCTION medusa_market.take_holdings(envelope_id bigint,
    differing jsonb) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope medusa_market.inbox := medusa_market.end_envelope(envelope_id);
    here     text := medusa_market.here();
    agreed   medusa_market.contract_revision;
    one      record;
    wants_sent    bigint;
    sent     bigint;
    more     bigint;
BEGIN
    -- No more than a partner takes of a sender within an hour: the next comparison goes on.
    SELECT count(*) FILTER (WHERE o.kind = 'want'), count(*) FILTER (WHERE o.kind = 'document')
    INTO wants_sent, sent FROM medusa_market.outbox AS o
    WHERE o.receiver = envelope.sender AND o.kind IN ('want', 'document')
        AND (o.acknowledged_at IS NULL OR o.put_at > clock_timestamp() - interval '1 hour');
    FOR one IN SELECT d.* FROM jsonb_to_recordset(differing)
        AS d (contract text, sends_from bigint, wants_from bigint, sends_end boolean)
        ORDER BY d.contract
    LOOP
        PERFORM medusa_market.check_names(one.contract);
        agreed := medusa_market.agreed_revision(one.contract);
        CONTINUE WHEN one.wants_from IS NULL AND (envelope.sender <> here
            AND envelope.sender IN (agreed.payer, agreed.provider)) IS NOT TRUE;
        IF one.sends_from IS NOT NULL THEN
            more := least(agreed.number - one.sends_from + 1, 32);
            CONTINUE WHEN sent + more > 4096;
            sent := sent + more;
            PERFORM medusa_market.send_agreements(one.contract, envelope.sender, one.sends_from);
        ELSIF one.sends_end THEN
            PERFORM medusa_market.put_notices(one.contract, envelope.sender);
        END IF;
        IF one.wants_from IS NOT NULL AND wants_sent < 1024 THEN
            wants_sent := wants_sent + 1;
            PERFORM medusa_market.put_out(envelope.sender, 'want', 'want/' || one.contract,
                jsonb_build_object('contract', one.contract, 'number', one.wants_from));
        END IF;
    END LOOP;
    RETURN 'compared';
END $$;
COMMENT ON FUNCTION medusa_market.take_holdings(bigint, jsonb) IS
    'A partner sends its holdings: those that it lacks are sent, those that are lacking here '
    'are requested, as medusa_core/market/converging.py finds them; both no more than it would '
    'take within an hour.';
