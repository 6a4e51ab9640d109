CREATE OR REPLACE FUNCTION medusa_market.held_agreement(document bytea,
    envelope_id bigint) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object(
        'revision', held.revision,
        'before', (
            SELECT a.revision FROM medusa_market.contract_agreement AS a
            WHERE a.contract = terms.contract AND a.number = terms.number - 1),
        'counts', coalesce(held.provider = h.participant OR EXISTS (
            SELECT FROM medusa_market.statement AS s
            WHERE s.statement = 'holds ' || held.revision AND s.party = held.provider), false),
        'is_bound', terms.provider <> h.participant
            OR NOT EXISTS (
                SELECT FROM medusa_market.contract_proposal AS p
                WHERE p.revision = terms.revision AND p.proposed_by = h.participant)
            OR EXISTS (
                SELECT FROM medusa_market.contract_proposal AS p
                JOIN medusa_market.inbox AS i ON i.envelope_id = held_agreement.envelope_id
                WHERE p.revision = terms.revision AND p.proposed_by = h.participant
                    AND p.let_go_at IS NULL AND p.expires_at + interval '7 days' > i.received_at))
    FROM medusa.home AS h
    CROSS JOIN medusa_market.terms_of(held_agreement.document) AS terms
    LEFT JOIN LATERAL (
        SELECT r.revision, r.provider FROM medusa_market.contract_agreement AS a
        JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
        WHERE a.contract = terms.contract AND a.number = terms.number) AS held ON true
$$;
COMMENT ON FUNCTION medusa_market.held_agreement(bytea, bigint) IS
    'The agreement here under the number of a document in an envelope, judged by '
    'medusa_core/market/converging.py. Whether it is still binding counts from its arrival.';
