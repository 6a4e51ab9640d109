CREATE OR REPLACE FUNCTION medusa_market.note_notice(
    contract text, given_by text, stated_by text, ends_at timestamptz, noted_at timestamptz
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before   timestamptz := medusa_market.ends_at(contract);
    proposal medusa_market.contract_proposal;
BEGIN
    INSERT INTO medusa_market.contract_notice (contract, given_by, stated_by, ends_at, noted_at)
    VALUES (note_notice.contract, note_notice.given_by, note_notice.stated_by, note_notice.ends_at,
        note_notice.noted_at);
    IF medusa_market.ends_at(contract) IS NOT DISTINCT FROM before THEN
        RETURN;
    END IF;
    FOR proposal IN SELECT * FROM medusa_market.contract_proposal AS p
        WHERE p.contract = note_notice.contract AND p.state = 'open' ORDER BY p.proposal_id
    LOOP
        PERFORM medusa_market.end_proposal(proposal, 'withdrawn');
    END LOOP;
    PERFORM medusa_market.claim_subjects(contract);
    PERFORM medusa_market.write_audit('notice', contract, to_jsonb(before),
        jsonb_build_object('given_by', note_notice.given_by,
            'ends_at', medusa_market.ends_at(note_notice.contract)));
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa_market.note_notice(text, text, text, timestamptz, timestamptz) IS
    'Record a statement of when a contract ends; if that changes the time, proposals for the '
    'contract end.';
