CREATE OR REPLACE FUNCTION medusa_market.put_document(
    revision text, receiver text, about text, proposal bigint, expires_at timestamptz
) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    SELECT medusa_market.put_out(put_document.receiver, 'document',
        put_document.about || CASE WHEN c.signature IS NULL THEN '' ELSE '/held' END,
        jsonb_build_object(
            'document', convert_from(r.document, 'UTF8'),
            'proposal', put_document.proposal,
            'expires_at_ms', medusa.to_ms(put_document.expires_at),
            'confirmation', encode(c.signature, 'hex'),
            'signatures', coalesce((
                SELECT jsonb_object_agg(s.party, encode(s.signature, 'hex') ORDER BY s.noted_at)
                FROM medusa_market.contract_signature AS s WHERE s.revision = r.revision
                    AND NOT EXISTS (
                        SELECT FROM medusa_market.key_disowned AS d
                            WHERE d.public_key = s.public_key)),
                '{}')))
    FROM medusa_market.contract_revision AS r
    LEFT JOIN LATERAL (
        SELECT s.signature FROM medusa_market.statement AS s
        WHERE s.statement = 'holds ' || r.revision AND s.party = r.provider
            AND NOT EXISTS (
                SELECT FROM medusa_market.key_disowned AS d WHERE d.public_key = s.public_key)
        ORDER BY s.noted_at DESC LIMIT 1) AS c ON true
    WHERE r.revision = put_document.revision
$$;
COMMENT ON FUNCTION medusa_market.put_document(text, text, text, bigint, timestamptz) IS
    'Send a partner a revision with the signatures that are here; expires_at is its '
    'proposal''s.';
