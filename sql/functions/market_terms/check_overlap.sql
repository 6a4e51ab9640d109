CREATE OR REPLACE FUNCTION medusa_market.check_overlap(
    terms medusa_market.contract_revision) RETURNS void
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    other medusa_market.contract_claim;
BEGIN
    SELECT c.* INTO other FROM medusa_market.contract_claim AS c
    WHERE c.contract <> terms.contract AND c.kind = terms.kind
        AND (c.payer, c.provider) = (terms.payer, terms.provider) AND c.validity && terms.validity
        AND (c.subject = '*' OR c.subject = terms.stream OR terms.kind = 'movement'
            AND (terms.fragments IS NULL OR EXISTS (
                SELECT FROM unnest(terms.fragments) AS f
                WHERE medusa_market.is_fragment_of(f, c.subject)
                    OR medusa_market.is_fragment_of(c.subject, f))))
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'contract % is about % from % to % already: choose another validity or '
            'subject, or end it before', other.contract,
            CASE other.subject WHEN '*' THEN 'any fragment' ELSE other.subject END,
            lower(other.validity), upper(other.validity) USING ERRCODE = 'MD001';
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.check_overlap(medusa_market.contract_revision) IS
    'Refuse terms with the subject of an agreed contract at the same time; the exclusion '
    'constraint is the second guard.';
