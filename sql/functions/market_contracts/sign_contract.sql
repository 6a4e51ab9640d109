CREATE OR REPLACE FUNCTION medusa_market.sign_contract(revision text, signature bytea,
    public_key bytea)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms medusa_market.contract_revision;
    own   medusa_market.contract_proposal;
    here  text := medusa_market.here();
BEGIN
    SELECT * INTO terms FROM medusa_market.contract_revision AS r
        WHERE r.revision = sign_contract.revision;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'revision % is not known here: propose it first', left(revision, 80)
            USING ERRCODE = 'MD001';
    END IF;
    PERFORM medusa_market.lock_contract(terms.contract);
    SELECT * INTO own FROM medusa_market.contract_proposal AS p
    WHERE p.revision = terms.revision AND p.proposed_by = here AND p.state = 'open'
        AND p.expires_at > clock_timestamp();
    IF NOT FOUND THEN
        RETURN false;  -- taken back meanwhile, or signed already
    END IF;
    IF sign_contract.public_key IS DISTINCT FROM medusa_market.key_of(here) THEN
        RAISE EXCEPTION 'the key of % is another one than it signed with: let the owner call '
            'medusa_api.replace_key', here USING ERRCODE = 'MD001';
    END IF;
    IF here = terms.payer AND NOT (
        EXISTS (
            SELECT FROM medusa_market.contract_proposal AS p
            WHERE p.revision = terms.revision AND p.proposed_by = terms.provider
                AND p.state = 'open' AND p.expires_at > clock_timestamp())
        AND EXISTS (
            SELECT FROM medusa_market.contract_signature AS s
            WHERE s.revision = terms.revision AND s.party = terms.provider)
        AND medusa_market.ends_at(terms.contract) IS NULL
        AND terms.number = 1 + coalesce((medusa_market.agreed_revision(terms.contract)).number, 0))
    THEN
        RETURN false;  -- the provider has not signed it, or took it back
    END IF;
    INSERT INTO medusa_market.contract_signature (revision, party, signature, public_key)
    VALUES (terms.revision, here, sign_contract.signature, sign_contract.public_key)
    ON CONFLICT DO NOTHING;
    -- The payer's may be here from an agreement that became void.
    IF NOT FOUND AND here = terms.provider THEN
        RETURN false;
    END IF;
    PERFORM medusa_market.write_audit('signed', terms.contract, NULL, to_jsonb(terms.revision));
    IF here = terms.payer THEN
        PERFORM medusa_market.agree(terms.revision);
    ELSE
        PERFORM medusa_market.put_document(terms.revision, terms.payer,
            'proposal/' || own.proposal_id,
            own.proposal_id, own.expires_at);
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.sign_contract(text, bytea, bytea) IS
    'Sign this home''s proposal: the provider as an offer, the payer last, which makes it '
    'agreed. Returns whether there was something to sign.';
