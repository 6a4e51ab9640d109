CREATE OR REPLACE FUNCTION medusa_market.take_document(
    envelope_id bigint, document bytea, signatures jsonb, sender_proposal bigint,
    expires_at_ms bigint, verdict text, judged jsonb
) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    envelope  medusa_market.inbox;
    terms     medusa_market.contract_revision := medusa_market.terms_of(document);
    agreed    medusa_market.contract_revision;
    proposal  medusa_market.contract_proposal;
    here      text := medusa_market.here();
    is_signed boolean := signatures ? 'payer' AND signatures ? 'provider';
BEGIN
    -- 1 Is it between the sender and this home?
    PERFORM medusa_market.check_terms(terms);
    PERFORM medusa_market.lock_contract(terms.contract);
    envelope := medusa_market.end_envelope(envelope_id);
    IF NOT (here IN (terms.payer, terms.provider)
        AND envelope.sender IN (terms.payer, terms.provider)
        AND envelope.sender <> here)
    THEN
        RAISE EXCEPTION 'contract % is one of % and %: % sends it to %, which is not a party to it',
            terms.contract, terms.payer, terms.provider, envelope.sender, here
            USING ERRCODE = 'MD001';
    END IF;
    agreed := medusa_market.agreed_revision(terms.contract);
    IF agreed.revision IS NOT NULL AND (NOT here IN (agreed.payer, agreed.provider)
        OR NOT envelope.sender IN (agreed.payer, agreed.provider)
        OR NOT is_signed AND (agreed.kind, agreed.payer, agreed.provider)
            IS DISTINCT FROM (terms.kind, terms.payer, terms.provider))
    THEN
        RAISE EXCEPTION 'contract % is one of kind % between % (payer) and % (provider) here',
            terms.contract, agreed.kind, agreed.payer, agreed.provider USING ERRCODE = 'MD001';
    END IF;

    -- 2 What is agreed already is sent again to a partner that lacks it.
    IF EXISTS (SELECT FROM medusa_market.contract_agreement AS a
        WHERE a.revision = terms.revision) THEN
        IF signatures ? 'confirmation' THEN
            PERFORM medusa_market.note_statement('holds ' || terms.revision, terms.provider,
                decode(signatures->'confirmation'->>'signature', 'hex'),
                decode(signatures->'confirmation'->>'public_key', 'hex'));
        END IF;
        IF NOT is_signed OR here = terms.provider AND NOT signatures ? 'confirmation' THEN
            PERFORM medusa_market.send_agreements(terms.contract, envelope.sender, terms.number);
        END IF;
        RETURN 'agreed before';
    END IF;

    -- 3 Both have signed: what becomes of it was judged from what is held here.
    IF is_signed THEN
        IF medusa_market.held_agreement(document, envelope_id) IS DISTINCT FROM judged THEN
            RAISE EXCEPTION 'contract % was agreed otherwise meanwhile: look again', terms.contract
                USING ERRCODE = 'MD002';
        END IF;
        IF verdict = 'earlier' THEN
            PERFORM medusa_market.put_out(envelope.sender, 'want', 'want/' || terms.contract,
                jsonb_build_object('contract', terms.contract, 'number',
                    least(terms.number - 1, coalesce(agreed.number, 0) + 1)));
            RETURN 'the earlier revisions are requested';
        ELSIF verdict = 'keep' THEN
            PERFORM medusa_market.send_agreements(terms.contract, envelope.sender, terms.number);
            RETURN 'agreed otherwise';
        ELSIF verdict = 'late' THEN
            PERFORM medusa_market.put_out(envelope.sender, 'refusal', 'refusal/' || terms.revision,
                jsonb_build_object('contract', terms.contract, 'number', terms.number,
                    'revision', terms.revision, 'newest', coalesce(agreed.number, 0)));
            PERFORM medusa_market.write_audit('refused', terms.contract, NULL,
                to_jsonb(terms.revision));
            RETURN 'it comes too late';
        ELSIF (verdict IN ('agree', 'replace')) IS NOT TRUE THEN
            RAISE EXCEPTION 'an agreement on contract % comes without a verdict', terms.contract
                USING ERRCODE = 'MD001';
        END IF;
        INSERT INTO medusa_market.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;
        PERFORM medusa_market.note_signature(terms.revision,
            CASE s.key WHEN 'payer' THEN terms.payer ELSE terms.provider END,
            decode(s.value->>'signature', 'hex'), decode(s.value->>'public_key', 'hex'))
        FROM jsonb_each(signatures) AS s WHERE s.key <> 'confirmation';
        IF signatures ? 'confirmation' THEN
            PERFORM medusa_market.note_statement('holds ' || terms.revision, terms.provider,
                decode(signatures->'confirmation'->>'signature', 'hex'),
                decode(signatures->'confirmation'->>'public_key', 'hex'));
        END IF;
        IF verdict = 'replace' THEN
            PERFORM medusa_market.void_agreements(terms.contract, terms.number,
                'both homes keep ' || terms.revision || ' instead');
        END IF;
        PERFORM medusa_market.agree(terms.revision);
        RETURN 'agreed';
    END IF;

    -- 4 A proposal of what is past, or of what builds on what is not here.
    IF terms.number <= agreed.number THEN
        PERFORM medusa_market.send_agreements(terms.contract, envelope.sender, terms.number);
        RETURN 'agreed otherwise';
    END IF;
    IF (terms.number, terms.supersedes) IS DISTINCT FROM
        (coalesce(agreed.number, 0) + 1, agreed.revision)
    THEN
        PERFORM medusa_market.put_out(envelope.sender, 'want', 'want/' || terms.contract,
            jsonb_build_object('contract', terms.contract, 'number',
                least(terms.number - 1, coalesce(agreed.number, 0) + 1)));
        RETURN 'the earlier revisions are requested';
    END IF;

    -- 5 A proposal; the provider's is signed, the payer signs last.
    INSERT INTO medusa_market.contract_revision SELECT terms.* ON CONFLICT DO NOTHING;
    IF envelope.sender = terms.provider AND NOT signatures ? 'provider' THEN
        RAISE EXCEPTION 'the provider proposes contract % without its signature: let it sign',
            terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF medusa_market.ends_at(terms.contract) IS NOT NULL
        OR upper(terms.validity) <= clock_timestamp() THEN
        RAISE EXCEPTION 'contract % has ended or ends by notice: propose another one',
            terms.contract USING ERRCODE = 'MD001';
    END IF;
    IF sender_proposal IS NULL THEN
        RAISE EXCEPTION 'a proposal has a number in the home that makes it' USING ERRCODE = 'MD001';
    END IF;
    IF (expires_at_ms BETWEEN 0 AND medusa.to_ms(clock_timestamp()) + 32 * 86400000::bigint)
        IS NOT TRUE
    THEN
        RAISE EXCEPTION 'a proposal lasts up to 31 days' USING ERRCODE = 'MD001';
    END IF;
    IF medusa_market.at_ms(expires_at_ms) <= clock_timestamp() THEN
        RETURN 'expired on the way';
    END IF;
    IF (SELECT count(*) FROM medusa_market.contract_proposal AS p
        WHERE p.state = 'open' AND p.proposed_by = envelope.sender) >= 1000
    THEN
        RAISE EXCEPTION '% has 1,000 open proposals here: it may propose no more', envelope.sender
            USING ERRCODE = 'MD001';
    END IF;
    IF signatures ? 'provider' AND envelope.sender = terms.provider THEN
        PERFORM medusa_market.note_signature(terms.revision, terms.provider,
            decode(signatures->'provider'->>'signature', 'hex'),
            decode(signatures->'provider'->>'public_key', 'hex'));
    END IF;
    SELECT * INTO proposal FROM medusa_market.contract_proposal AS p
    WHERE p.contract = terms.contract AND p.proposed_by = envelope.sender AND p.state = 'open';
    IF (proposal.revision, proposal.partner_number) = (terms.revision, sender_proposal) THEN
        RETURN 'proposed before';
    ELSIF FOUND THEN
        PERFORM medusa_market.end_proposal(proposal, 'superseded');
    END IF;
    INSERT INTO medusa_market.contract_proposal (contract, revision, proposed_by, because,
        expires_at,
        partner_number)
    VALUES (terms.contract, terms.revision, envelope.sender, 'told by the partner',
        medusa_market.at_ms(expires_at_ms), sender_proposal);
    PERFORM medusa_market.write_audit('told', terms.contract, NULL,
        convert_from(terms.document, 'UTF8')::jsonb || jsonb_build_object('revision',
            terms.revision));
    PERFORM pg_notify('medusa_progress', '');
    RETURN 'proposed';
END $$;
COMMENT ON FUNCTION medusa_market.take_document(bigint, bytea, jsonb, bigint, bigint, text,
    jsonb) IS
    'Bring a partner''s document about a contract into this home: a proposal, or both '
    'signatures, on which a verdict decides. The envelope and the given signatures (payer, '
    'provider, confirmation, each with its key) have been verified. Returns the outcome.';
