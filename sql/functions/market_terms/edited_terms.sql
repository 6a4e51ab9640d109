CREATE OR REPLACE FUNCTION medusa_market.edited_terms(old jsonb, new jsonb)
RETURNS medusa_market.contract_revision
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp SET datestyle = 'ISO, MDY' AS $$
BEGIN
    IF old->>'contract' IS NOT NULL
        AND ROW(new->'contract', new->'kind', new->'payer', new->'provider')
        IS DISTINCT FROM ROW(old->'contract', old->'kind', old->'payer', old->'provider')
    THEN
        RAISE EXCEPTION 'contract % keeps its name, kind, payer and provider: make another one',
            old->>'contract' USING ERRCODE = 'MD001';
    END IF;
    IF EXISTS (
        SELECT FROM unnest(ARRAY['state', 'number', 'ends_at', 'revision', 'active_revision',
            'partner_proposes']) AS derived
        WHERE new->>derived IS DISTINCT FROM old->>derived)
    THEN
        RAISE EXCEPTION 'state, number, ends_at, revision, active_revision and partner_proposes of '
            'contract % follow from what is agreed: edit its terms', new->>'contract'
            USING ERRCODE = 'MD001';
    END IF;
    RETURN jsonb_populate_record(NULL::medusa_market.contract_revision,
        new - ARRAY['number', 'revision']);
END $$;
COMMENT ON FUNCTION medusa_market.edited_terms(jsonb, jsonb) IS
    'The terms after an edit of a row of medusa_api.contract (old is NULL where the contract '
    'is new); refused where it changes other columns.';
