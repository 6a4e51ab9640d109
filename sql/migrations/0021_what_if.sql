-- Before signing: what an edit of a contract would say, checked as the edit and written nowhere.

CREATE FUNCTION medusa.check_proposal(given medusa.contract_revision)
RETURNS medusa.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms  medusa.contract_revision := given;
    agreed medusa.contract_revision;
    here   text := medusa.here();
    other  text;
    ends   timestamptz;
BEGIN
    -- 1 Whose contract, and what is agreed of it?
    IF (here IN (terms.payer, terms.provider)) IS NOT TRUE THEN
        RAISE EXCEPTION 'this is the home of %, no party of contract %: let its payer or its '
            'provider edit it', here, terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF medusa.key_of(here) IS NULL THEN
        RAISE EXCEPTION '% has no key to sign with yet: run medusa apply', here
            USING ERRCODE = 'MD001';
    END IF;
    agreed := medusa.agreed_revision(terms.contract);
    ends := least(medusa.ends_at(terms.contract), upper(agreed.validity));
    IF ends <= clock_timestamp() OR medusa.ends_at(terms.contract) IS NOT NULL THEN
        RAISE EXCEPTION 'contract % ends at %: make another one under another name', terms.contract,
            ends USING ERRCODE = 'MD001';
    END IF;
    IF agreed.revision IS NOT NULL AND (agreed.kind, agreed.payer, agreed.provider)
        IS DISTINCT FROM (terms.kind, terms.payer, terms.provider)
    THEN
        RAISE EXCEPTION 'contract % is one of kind % between % (payer) and % (provider), which '
            'stays: make another one', terms.contract, agreed.kind, agreed.payer, agreed.provider
            USING ERRCODE = 'MD001';
    END IF;

    -- 2 Are the terms sound?
    terms := medusa.sorted_terms(terms);
    terms.number := coalesce(agreed.number, 0) + 1;
    terms.supersedes := agreed.revision;
    PERFORM medusa.check_terms(terms);
    IF upper(terms.validity) <= clock_timestamp() THEN
        RAISE EXCEPTION 'contract % would have ended at %: let it be valid longer', terms.contract,
            upper(terms.validity) USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa.check_overlap(terms);
    other := CASE here WHEN terms.payer THEN terms.provider ELSE terms.payer END;
    IF medusa.key_of(other) IS NULL THEN
        RAISE EXCEPTION 'no key of participant % is known here: if it is one, call '
            'medusa_api.learn_key with the key that it shows', other USING ERRCODE = 'MD001';
    END IF;
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa.check_proposal(medusa.contract_revision) IS
    'Refuse terms that this home may not propose now; else the same terms as the next revision.';

CREATE OR REPLACE FUNCTION medusa.propose(
    given medusa.contract_revision, expires_at timestamptz, because text
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa.contract_revision := given;
    agreed medusa.contract_revision;
    own    medusa.contract_proposal;
    here   text := medusa.here();
    other  text;
BEGIN
    -- 1 May this home propose it, and are the terms sound?
    PERFORM medusa.lock_contract(terms.contract);
    terms := medusa.check_proposal(terms);
    agreed := medusa.agreed_revision(terms.contract);
    other := CASE here WHEN terms.payer THEN terms.provider ELSE terms.payer END;
    IF (expires_at > clock_timestamp() AND expires_at <= clock_timestamp() + interval '31 days')
        IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a proposal lasts up to 31 days from now, not until %', expires_at
            USING ERRCODE = 'MD001';
    END IF;

    -- 2 What does this home propose already?
    SELECT * INTO own FROM medusa.contract_proposal AS p
    WHERE p.contract = terms.contract AND p.proposed_by = here AND p.state = 'open';
    terms := medusa.with_number(terms, terms.number, terms.supersedes);
    IF own.revision = terms.revision THEN
        RETURN terms.revision;
    END IF;
    IF agreed.revision = (medusa.with_number(terms, agreed.number, agreed.supersedes)).revision THEN
        IF own.proposal_id IS NOT NULL THEN
            PERFORM medusa.end_proposal(own, 'withdrawn');
            PERFORM pg_notify('medusa_progress', '');
        END IF;
        RETURN agreed.revision;
    END IF;
    IF own.proposal_id IS NOT NULL THEN
        PERFORM medusa.end_proposal(own, 'superseded');
    END IF;

    -- 3 Propose it. The provider's goes out with its signature, which the program makes.
    terms.known_at := clock_timestamp();
    INSERT INTO medusa.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;
    INSERT INTO medusa.contract_proposal (contract, revision, proposed_by, because, expires_at)
    VALUES (terms.contract, terms.revision, here, propose.because, propose.expires_at)
    RETURNING * INTO own;
    PERFORM medusa.write_audit('proposed', terms.contract, to_jsonb(agreed.revision),
        convert_from(terms.document, 'UTF8')::jsonb || jsonb_build_object('revision', terms.revision));
    IF here = terms.payer OR EXISTS (
        SELECT FROM medusa.contract_signature AS s
        WHERE s.revision = terms.revision AND s.party = here)
    THEN
        PERFORM medusa.put_document(terms.revision, other, 'proposal/' || own.proposal_id,
            own.proposal_id, own.expires_at);
    END IF;
    PERFORM pg_notify('medusa_progress', '');
    RETURN terms.revision;
END $$;

CREATE FUNCTION medusa.edited_terms(old medusa_api.contract, new medusa_api.contract)
RETURNS medusa.contract_revision
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision;
BEGIN
    IF old.contract IS NOT NULL AND (new.contract, new.kind, new.payer, new.provider)
        IS DISTINCT FROM (old.contract, old.kind, old.payer, old.provider)
    THEN
        RAISE EXCEPTION 'contract % keeps its name, kind, payer and provider: make another one',
            old.contract USING ERRCODE = 'MD001';
    END IF;
    IF (new.state, new.number, new.ends_at, new.revision, new.active_revision, new.partner_proposes)
        IS DISTINCT FROM (old.state, old.number, old.ends_at, old.revision, old.active_revision,
            old.partner_proposes)
    THEN
        RAISE EXCEPTION 'state, number, ends_at, revision, active_revision and partner_proposes of '
            'contract % follow from what is agreed: edit its terms', new.contract
            USING ERRCODE = 'MD001';
    END IF;
    terms.contract := new.contract;
    terms.kind := new.kind;
    terms.payer := new.payer;
    terms.provider := new.provider;
    terms.currency := new.currency;
    terms.validity := new.validity;
    terms.settlement_ms := new.settlement_ms;
    terms.notice_ms := new.notice_ms;
    terms.price_low := new.price_low;
    terms.price_high := new.price_high;
    terms.price_step := new.price_step;
    terms.fragments := new.fragments;
    terms.load_max := new.load_max;
    terms.billed := new.billed;
    terms.recovery := new.recovery;
    terms.method := new.method;
    terms.replicas := new.replicas;
    terms.bound_ms := new.bound_ms;
    terms.penalty := new.penalty;
    terms.hold_ms_max := new.hold_ms_max;
    terms.stream := new.stream;
    terms.price := new.price;
    terms.per := new.per;
    terms.instead := new.instead;
    RETURN terms;
END $$;
COMMENT ON FUNCTION medusa.edited_terms(medusa_api.contract, medusa_api.contract) IS
    'What an edit of a row makes of its terms (old is NULL where the contract is new); refused where '
    'it changes what is no term.';

CREATE OR REPLACE FUNCTION medusa.edit_contract() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa.contract_revision;
    stands record;
BEGIN
    -- The row was read before the lock: what another edit has made of it since is not passed over.
    PERFORM medusa.lock_contract(CASE TG_OP WHEN 'INSERT' THEN NEW.contract ELSE OLD.contract END);
    SELECT c.revision, c.state, c.partner_proposes, c.active_revision INTO stands
    FROM medusa_api.contract AS c
    WHERE c.contract = CASE TG_OP WHEN 'INSERT' THEN NEW.contract ELSE OLD.contract END;
    IF TG_OP = 'INSERT' AND stands.state <> 'asked' THEN
        RAISE EXCEPTION 'contract % is there already (%): UPDATE it, or choose another name',
            NEW.contract, stands.state USING ERRCODE = 'MD001';
    END IF;
    IF TG_OP <> 'INSERT' AND (stands.revision, stands.state, stands.partner_proposes)
        IS DISTINCT FROM (OLD.revision, OLD.state, OLD.partner_proposes)
    THEN
        RAISE EXCEPTION 'contract % was edited meanwhile: read it again', OLD.contract
            USING ERRCODE = 'MD002';
    END IF;
    IF TG_OP = 'DELETE' THEN
        PERFORM medusa.end_contract(OLD.contract);
        RETURN OLD;
    END IF;
    terms := medusa.edited_terms(OLD, NEW);
    PERFORM medusa.propose(terms,
        CASE WHEN TG_OP = 'INSERT' OR NEW.expires_at IS DISTINCT FROM OLD.expires_at
            THEN coalesce(NEW.expires_at, clock_timestamp() + interval '7 days')
            ELSE clock_timestamp() + interval '7 days' END,
        'edited in SQL');
    RETURN NEW;
END $$;

CREATE FUNCTION medusa.what_if_edited(contract text, edits jsonb) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $$
DECLARE
    stands medusa_api.contract;
    edited medusa_api.contract;
    terms  medusa.contract_revision;
    edit   jsonb;
BEGIN
    SELECT c.* INTO stands FROM medusa_api.contract AS c
    WHERE c.contract = what_if_edited.contract;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT r.* INTO terms FROM medusa.contract_revision AS r
    WHERE r.revision = coalesce(stands.partner_proposes, stands.revision);
    FOR edit IN SELECT * FROM jsonb_array_elements(edits) LOOP
        edited := jsonb_populate_record(stands, edit);
        terms := medusa.check_proposal(medusa.edited_terms(stands, edited));
        stands := edited;
    END LOOP;
    terms := medusa.check_proposal(terms);
    RETURN (medusa.with_number(terms, terms.number, terms.supersedes)).document;
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'contract % cannot be edited so: %', contract, SQLERRM USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.what_if_edited(text, jsonb) IS
    'What a contract would say after these edits (objects of columns and texts), each checked as an '
    'UPDATE of medusa_api.contract is; without any, what the partner proposes, else what stands. '
    'Nothing is written. NULL: there is no such contract.';

CREATE FUNCTION medusa.what_if_document(document bytea) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    terms medusa.contract_revision := medusa.check_proposal(medusa.terms_of(document));
BEGIN
    RETURN (medusa.with_number(terms, terms.number, terms.supersedes)).document;
END $$;
COMMENT ON FUNCTION medusa.what_if_document(bytea) IS
    'What this home would propose with a document, checked as that; nothing is written.';
REVOKE ALL ON FUNCTION medusa.check_proposal, medusa.edited_terms, medusa.what_if_edited,
    medusa.what_if_document FROM PUBLIC;

CREATE FUNCTION medusa.grant_what_if_to_roles() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    role text;
    kind text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['owner', 'job'] LOOP
        role := current_database() || '_' || kind;
        CONTINUE WHEN role = current_user
            OR NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.what_if_edited, medusa.what_if_document '
            'TO %I', role);
        IF kind = 'owner' THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION medusa.check_proposal, medusa.edited_terms '
                'TO %I', role);
        END IF;
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.grant_what_if_to_roles() IS
    'Owner and jobs ask what an edit would say; no other role does.';
REVOKE ALL ON FUNCTION medusa.grant_what_if_to_roles() FROM PUBLIC;
SELECT medusa.grant_what_if_to_roles();
