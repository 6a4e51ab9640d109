CREATE OR REPLACE FUNCTION medusa_market.give_notice(contract text) RETURNS timestamptz
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    agreed medusa_market.contract_revision;
    here   text := medusa_market.here();
    ends   timestamptz;
    now_is timestamptz;
BEGIN
    PERFORM medusa_market.lock_contract(contract);
    now_is := clock_timestamp();
    agreed := medusa_market.agreed_revision(contract);
    IF agreed.revision IS NULL THEN
        RAISE EXCEPTION 'contract % is not agreed: withdraw what is proposed', contract
            USING ERRCODE = 'MD001';
    END IF;
    ends := medusa_market.ends_at(contract);
    IF ends <= medusa_market.at_ms(medusa.to_ms(now_is) + agreed.notice_ms) OR EXISTS (
        SELECT FROM medusa_market.contract_notice AS n
        WHERE n.contract = give_notice.contract AND n.given_by = here)
    THEN
        RAISE EXCEPTION 'contract % ends at % by notice already: wait for that', contract, ends
            USING ERRCODE = 'MD001';
    END IF;
    IF agreed.notice_ms > medusa.to_ms(upper(agreed.validity)) - medusa.to_ms(now_is)
    THEN
        RAISE EXCEPTION 'contract % ends at %, before its notice of % ms has run: wait for that',
            contract, upper(agreed.validity), agreed.notice_ms USING ERRCODE = 'MD001';
    END IF;
    ends := medusa_market.at_ms(medusa.to_ms(now_is) + agreed.notice_ms);
    PERFORM medusa_market.note_notice(contract, here, here, ends, now_is);
    PERFORM medusa_market.owe_statement(
        'ends ' || contract || ' ' || here || ' ' || medusa.to_ms(ends));
    RETURN ends;
END $$;
COMMENT ON FUNCTION medusa_market.give_notice(text) IS
    'End a contract: its notice from now on, or from when the partner hears of it, whichever is '
    'later. When it ends, as far as is known.';
