CREATE OR REPLACE FUNCTION medusa_market.agree(revision text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms    medusa_market.contract_revision;
    proposal medusa_market.contract_proposal;
    here     text := medusa_market.here();
BEGIN
    SELECT * INTO terms FROM medusa_market.contract_revision AS r WHERE r.revision = agree.revision;
    INSERT INTO medusa_market.contract_agreement (revision, contract, number)
    VALUES (terms.revision, terms.contract, terms.number);
    PERFORM medusa_market.claim_subjects(terms.contract);
    PERFORM medusa_market.write_audit('agreed', terms.contract, to_jsonb(terms.supersedes),
        to_jsonb(terms.revision));
    FOR proposal IN SELECT * FROM medusa_market.contract_proposal AS p
        WHERE p.contract = terms.contract AND p.state = 'open' ORDER BY p.proposal_id
    LOOP
        PERFORM medusa_market.end_proposal(proposal,
            CASE proposal.revision WHEN terms.revision THEN 'agreed' ELSE 'superseded' END);
    END LOOP;
    IF NOT EXISTS (
        SELECT FROM medusa_market.statement AS s
        WHERE s.statement = 'holds ' || terms.revision AND s.party = terms.provider)
    THEN
        IF here = terms.payer THEN
            PERFORM medusa_market.put_document(terms.revision, terms.provider,
                'agreement/' || terms.revision, NULL, NULL);
        ELSE
            PERFORM medusa_market.owe_statement('holds ' || terms.revision);
        END IF;
    END IF;
    PERFORM medusa_market.hear_notices(terms.contract);
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa_market.agree(text) IS
    'Both signatures of a revision are here: it is agreed, and all other proposals end. The '
    'payer sends it, the provider states that it holds it.';
