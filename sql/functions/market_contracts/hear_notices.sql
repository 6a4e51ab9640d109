CREATE OR REPLACE FUNCTION medusa_market.hear_notices(contract text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    agreed medusa_market.contract_revision := medusa_market.agreed_revision(contract);
    here   text := medusa_market.here();
    other  text := CASE here WHEN agreed.payer THEN agreed.provider ELSE agreed.payer END;
    given  record;
    ends   bigint;
BEGIN
    SELECT min(n.ends_at) AS ends_at, min(n.noted_at) AS noted_at INTO given
    FROM medusa_market.contract_notice AS n
    WHERE n.contract = hear_notices.contract AND n.given_by = other AND n.stated_by = other
        AND agreed.revision IS NOT NULL
        AND NOT EXISTS (
            SELECT FROM medusa_market.contract_notice AS h
            WHERE h.contract = n.contract AND h.given_by = other AND h.stated_by = here);
    IF given.ends_at IS NOT NULL THEN
        ends := greatest(medusa.to_ms(given.ends_at),
            medusa.to_ms(given.noted_at) + agreed.notice_ms);
        PERFORM medusa_market.note_notice(contract, other, here, medusa_market.at_ms(ends),
            given.noted_at);
        PERFORM medusa_market.owe_statement('ends ' || contract || ' ' || other || ' ' || ends);
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.hear_notices(text) IS
    'State once when a partner''s notice ends, which runs in full from its arrival.';
