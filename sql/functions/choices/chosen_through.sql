CREATE OR REPLACE FUNCTION medusa.chosen_through(stream text) RETURNS bigint
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT least(min(coalesce((
        SELECT t.from_us FROM medusa.segment AS t
        WHERE t.line_id = p.line_id AND t.end_version IS NULL AND t.stability = 'tentative'
        ORDER BY t.to_us LIMIT 1), p.boundary_us, -9223372036854775808)), (
            -- Who is wrong has to take it back, and the rows are what a person looks at.
            SELECT min(d.bucket_us) FROM medusa.divergence AS d
            WHERE d.stream = chosen_through.stream AND NOT EXISTS (
                SELECT FROM medusa.divergence_settled AS s
                WHERE s.divergence_id = d.divergence_id)))
    FROM medusa.stream_producer AS p
    WHERE p.stream = chosen_through.stream AND p.replica = -1
$$;
COMMENT ON FUNCTION medusa.chosen_through(text) IS
    'The bucket up to which the rows read of a stream''s producers are final here and not in '
    'dispute; NULL: there is no choice.';
