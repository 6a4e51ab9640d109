CREATE OR REPLACE FUNCTION medusa_market.propose(
    given medusa_market.contract_revision, expires_at timestamptz, because text
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa_market.contract_revision := given;
    agreed medusa_market.contract_revision;
    own    medusa_market.contract_proposal;
    here   text := medusa_market.here();
    other  text;
BEGIN
    -- 1 May this home propose it, and are the terms sound?
    PERFORM medusa_market.lock_contract(terms.contract);
    terms := medusa_market.check_proposal(terms);
    agreed := medusa_market.agreed_revision(terms.contract);
    other := CASE here WHEN terms.payer THEN terms.provider ELSE terms.payer END;
    IF (expires_at > clock_timestamp() AND expires_at <= clock_timestamp() + interval '31 days')
        IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a proposal lasts up to 31 days from now, not until %', expires_at
            USING ERRCODE = 'MD001';
    END IF;

    -- 2 What does this home propose already?
    SELECT * INTO own FROM medusa_market.contract_proposal AS p
    WHERE p.contract = terms.contract AND p.proposed_by = here AND p.state = 'open';
    terms := medusa_market.with_number(terms, terms.number, terms.supersedes);
    IF own.revision = terms.revision THEN
        RETURN terms.revision;
    END IF;
    IF agreed.revision = (medusa_market.with_number(terms, agreed.number,
        agreed.supersedes)).revision THEN
        IF own.proposal_id IS NOT NULL THEN
            PERFORM medusa_market.end_proposal(own, 'withdrawn');
            PERFORM pg_notify('medusa_progress', '');
        END IF;
        RETURN agreed.revision;
    END IF;
    IF own.proposal_id IS NOT NULL THEN
        PERFORM medusa_market.end_proposal(own, 'superseded');
    END IF;

    -- 3 Propose it. The provider's goes out with its signature, which the program makes.
    terms.known_at := clock_timestamp();
    INSERT INTO medusa_market.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;
    INSERT INTO medusa_market.contract_proposal (contract, revision, proposed_by, because,
        expires_at)
    VALUES (terms.contract, terms.revision, here, propose.because, propose.expires_at)
    RETURNING * INTO own;
    PERFORM medusa_market.write_audit('proposed', terms.contract, to_jsonb(agreed.revision),
        convert_from(terms.document, 'UTF8')::jsonb || jsonb_build_object('revision',
            terms.revision));
    IF here = terms.payer OR EXISTS (
        SELECT FROM medusa_market.contract_signature AS s
        WHERE s.revision = terms.revision AND s.party = here)
    THEN
        PERFORM medusa_market.put_document(terms.revision, other, 'proposal/' || own.proposal_id,
            own.proposal_id, own.expires_at);
    END IF;
    PERFORM pg_notify('medusa_progress', '');
    RETURN terms.revision;
END $$;
COMMENT ON FUNCTION medusa_market.propose(medusa_market.contract_revision, timestamptz, text) IS
    'Propose terms to the partner, as the next revision of the contract, in place of this '
    'home''s earlier proposal; returns the revision. It accepts an equal proposal of the '
    'partner.';
