CREATE OR REPLACE FUNCTION medusa.revision_document(made medusa.commit) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT jsonb_build_object('stream', p.stream, 'participant', p.participant,
        'replica', p.replica, 'generation', r.generation, 'from_us', r.from_us,
        'version', r.version, 'because', r.because, 'who', r.who,
        'recalled_at_ms', medusa.to_ms(r.recalled_at),
        'ranges', medusa.bounds_of(r.ranges), 'changed', medusa.bounds_of(r.changed))
    FROM medusa.stream_producer AS p
    JOIN medusa.recall AS r ON r.line_id = p.line_id
        AND r.version = (made.versions->>p.stream)::bigint
    WHERE made.versions ? p.stream AND (p.participant, p.replica) = (made.participant, made.replica)
$$;
COMMENT ON FUNCTION medusa.revision_document(medusa.commit) IS
    'The revision that a commit made.';
