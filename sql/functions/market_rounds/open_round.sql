CREATE OR REPLACE FUNCTION medusa_market.open_round(
    round_ms bigint, because text DEFAULT 'the time has passed'
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    last   medusa_market.round;
    now_is timestamptz;
    agreed record;
    those  text[];
BEGIN
    PERFORM medusa_market.check_length('a round', round_ms, 0);
    LOCK TABLE medusa_market.round IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO last FROM medusa_market.round ORDER BY number DESC LIMIT 1;
    now_is := clock_timestamp();
    IF medusa.to_ms(last.opened_at) + round_ms > medusa.to_ms(now_is) THEN
        RETURN NULL;
    END IF;
    INSERT INTO medusa_market.round (number, opened_at, because)
    VALUES (coalesce(last.number, 0) + 1, now_is, open_round.because)
    RETURNING * INTO last;
    -- Locks of contracts come before the audit's; what somebody edits now is active from a later
    -- round on, and keeps this one from nothing.
    those := ARRAY(
        SELECT o.contract FROM medusa_market.contract_order AS o
        WHERE o.contract IN (
            SELECT a.contract FROM medusa_market.contract_agreement AS a
            WHERE NOT EXISTS (
                SELECT FROM medusa_market.contract_activation AS v WHERE v.revision = a.revision))
        ORDER BY o.contract FOR UPDATE SKIP LOCKED);
    FOR agreed IN
        SELECT a.revision, a.contract, a.number FROM medusa_market.contract_agreement AS a
        WHERE a.agreed_at <= now_is AND a.contract = ANY (those) AND NOT EXISTS (
            SELECT FROM medusa_market.contract_activation AS v WHERE v.revision = a.revision)
        ORDER BY a.contract, a.number
    LOOP
        INSERT INTO medusa_market.contract_activation (revision, contract, number, round)
        VALUES (agreed.revision, agreed.contract, agreed.number, last.number);
        PERFORM medusa_market.claim_subjects(agreed.contract);
        PERFORM medusa_market.write_audit('activated', agreed.contract, to_jsonb(last.number),
            to_jsonb(agreed.revision));
    END LOOP;
    IF last.number % 10 = 0 THEN
        PERFORM medusa_market.send_statuses();
    END IF;
    RETURN last.number;
END $$;
COMMENT ON FUNCTION medusa_market.open_round(bigint, text) IS
    'Open the next round if this much time has passed since the last (0: in any case); its '
    'number, or NULL. A concurrent call waits and gets NULL. Agreed revisions are active from '
    'it on, unless one is being edited; every tenth round sends partners one hash of the '
    'agreements with them.';
