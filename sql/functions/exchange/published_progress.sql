CREATE OR REPLACE FUNCTION medusa.published_progress(partner text) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT coalesce(jsonb_agg(jsonb_build_object('stream', p.stream, 'replica', p.replica, 'mark',
            concat_ws('.', p.last_version, p.generation, coalesce(p.origin_us::text, '-'),
                coalesce(p.end_us::text, '-'), coalesce(p.trimmed_us::text, '-')))
            ORDER BY p.stream, p.replica), '[]')
        FROM medusa_api.granted_streams(published_progress.partner) AS g
        JOIN medusa.stream_producer AS p ON p.stream = g.stream
        JOIN medusa.home AS h ON h.participant = p.participant
        WHERE p.replica >= 0
    );
END $$;
COMMENT ON FUNCTION medusa.published_progress(text) IS
    'For the exchange server: the lines of this home that a partner may read, each with a mark '
    'that changes whenever its news do.';
