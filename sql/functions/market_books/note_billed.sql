CREATE OR REPLACE FUNCTION medusa_market.note_billed(
    contract text, period bigint, from_ms bigint, to_us bigint, cut_us bigint) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms   medusa_market.contract_revision := medusa_market.agreed_revision(note_billed.contract);
    at      medusa_market.billing_position;
    line    integer;
    changes jsonb;
BEGIN
    IF (terms.kind = 'content' AND medusa_market.here() IN (terms.payer, terms.provider)
        AND note_billed.cut_us > 0) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'contract % bills no stream here', note_billed.contract
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.billing_position (contract, from_ms)
    VALUES (note_billed.contract, note_billed.from_ms) ON CONFLICT DO NOTHING;
    SELECT b.* INTO at FROM medusa_market.billing_position AS b
    WHERE b.contract = note_billed.contract FOR UPDATE;
    IF (at.period, at.from_ms) <> (note_billed.period, note_billed.from_ms) THEN
        RAISE EXCEPTION 'period % of contract % is the next one to be stated: read again',
            at.period, at.contract USING ERRCODE = 'MD002';
    END IF;
    line := medusa_market.billable_line(terms.stream, terms.provider, at.line_id,
        note_billed.to_us);
    IF line IS NULL THEN
        RETURN NULL;
    END IF;
    IF at.line_id <> line THEN
        PERFORM medusa_market.apply_billed(at, at.line_id, medusa_market.billed_changes(at,
            at.line_id, coalesce(at.noted_us, note_billed.to_us), note_billed.cut_us));
    END IF;
    changes := medusa_market.billed_changes(at, line, note_billed.to_us, note_billed.cut_us);
    IF changes IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM medusa_market.apply_billed(at, line, changes);
    RETURN changes - 'ranges';
END $$;
COMMENT ON FUNCTION medusa_market.note_billed(text, bigint, bigint, bigint, bigint) IS
    'For jobs: count the final rows of a sold stream in the period that is stated next, and what was '
    'revised of earlier ones; up to where they are counted, NULL if there is no line yet.';
