CREATE OR REPLACE FUNCTION medusa_market.void_agreements(contract text, from_number bigint,
    because text)
RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    proposal medusa_market.contract_proposal;
BEGIN
    INSERT INTO medusa_market.contract_void (contract, number, revision, because, voided_at)
    SELECT a.contract, a.number, a.revision, void_agreements.because, transaction_timestamp()
    FROM medusa_market.contract_agreement AS a
    WHERE a.contract = void_agreements.contract AND a.number >= from_number
    ORDER BY a.number;
    DELETE FROM medusa_market.contract_activation AS v
    WHERE v.contract = void_agreements.contract AND v.number >= from_number;
    DELETE FROM medusa_market.contract_agreement AS a
    WHERE a.contract = void_agreements.contract AND a.number >= from_number;
    FOR proposal IN SELECT p.* FROM medusa_market.contract_proposal AS p
        JOIN medusa_market.contract_revision AS r ON r.revision = p.revision
        WHERE p.contract = void_agreements.contract AND p.state = 'open' AND r.number > from_number
        ORDER BY p.proposal_id
    LOOP
        PERFORM medusa_market.end_proposal(proposal, 'superseded');
    END LOOP;
    PERFORM medusa_market.claim_subjects(void_agreements.contract);
    PERFORM medusa_market.write_audit('void', void_agreements.contract, to_jsonb(from_number),
        to_jsonb(void_agreements.because));
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa_market.void_agreements(text, bigint, text) IS
    'Void the agreements here from a number on, with the reason: both homes keep another '
    'revision, or none.';
