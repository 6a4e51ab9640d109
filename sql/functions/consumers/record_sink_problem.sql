CREATE OR REPLACE FUNCTION medusa.record_sink_problem(
    stream text, name text, document text, problem text
) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    UPDATE medusa.sink AS s SET problem = left(record_sink_problem.problem, 2000)
    WHERE (s.stream, s.name, s.document) = (record_sink_problem.stream, record_sink_problem.name,
            record_sink_problem.document)
        AND s.problem IS DISTINCT FROM left(record_sink_problem.problem, 2000)
$$;
COMMENT ON FUNCTION medusa.record_sink_problem(text, text, text, text) IS
    'Record why a sink is blocked, or with NULL that it is not.';
