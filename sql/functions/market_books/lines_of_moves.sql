CREATE OR REPLACE FUNCTION medusa_market.lines_of_moves(terms medusa_market.contract_revision)
RETURNS TABLE (subject text, line_id integer, from_us bigint, to_us bigint, safe_us bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    -- What is counted to its end is left out once its period is stated.
    SELECT m.number || '/' || s.stream, p.line_id, m.from_us, m.to_us,
        CASE WHEN s.is_output AND NOT m.is_given AND m.to_us IS NULL
            THEN coalesce(v.stable_us, -1) ELSE 9223372036854775807 END
    FROM medusa_market.move AS m
    CROSS JOIN LATERAL medusa_market.streams_of_move(m) AS s
    LEFT JOIN medusa.stream_producer AS p ON (p.stream, p.participant, p.replica) =
        (s.stream, s.participant, s.replica)
    LEFT JOIN medusa_market.billed_line AS l ON (l.contract, l.subject) =
        (m.contract, m.number || '/' || s.stream)
    LEFT JOIN medusa.hold AS h ON (h.stream, h.holder, h.purpose) = (s.stream, m.partner, 'import')
    LEFT JOIN medusa.line_version AS v ON (v.line_id, v.version) =
        (p.line_id, (h.versions->>m.number::text)::bigint)
    WHERE m.contract = terms.contract AND m.from_us IS NOT NULL
        AND m.is_given = (terms.payer = medusa_market.here())
        AND (l.noted_us >= m.to_us) IS NOT TRUE
        AND (EXISTS (SELECT FROM unnest(terms.reference) AS r
                WHERE split_part(split_part(r, '=', 1), '/', 2) = s.stream
                    AND medusa_market.is_fragment_of(replace(m.fragment, '/', '.'),
                        split_part(r, '/', 1)))
            -- Where a move ends, and what a loss costs, is known when the result is.
            OR s.is_output)
$$;
COMMENT ON FUNCTION medusa_market.lines_of_moves(medusa_market.contract_revision) IS
    'The lines that the released moves of a contract read and write and by which they are billed, '
    'the first bucket that is billed and the one behind the last, and, in the home of the provider, '
    'before when the payer has acknowledged the results of a move that goes on. NULL: there is no '
    'line yet, or the move has not ended.';
