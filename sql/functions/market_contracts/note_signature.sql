CREATE OR REPLACE FUNCTION medusa_market.note_signature(
    revision text, party text, signature bytea, public_key bytea
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa_market.contract_signature (revision, party, signature, public_key)
    VALUES (note_signature.revision, note_signature.party, note_signature.signature,
        note_signature.public_key)
    ON CONFLICT DO NOTHING
$$;
COMMENT ON FUNCTION medusa_market.note_signature(text, text, bytea, bytea) IS
    'Keep a signature that was verified with this key.';
