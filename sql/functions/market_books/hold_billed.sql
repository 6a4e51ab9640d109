CREATE OR REPLACE FUNCTION medusa_market.hold_billed(
    contract text, line medusa_market.billed_line, changes jsonb) RETURNS void
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
    INSERT INTO medusa.hold AS h (stream, holder, purpose, from_us, versions)
    SELECT p.stream, concat_ws('/', 'contract:' || hold_billed.contract,
            nullif(split_part(line.subject, '/', 1), '')), 'billing',
        (changes->>'noted_us')::bigint,
        jsonb_build_object(CASE p.participant WHEN medusa_market.here() THEN p.replica::text
            ELSE p.participant || '/' || p.replica END, changes->'version')
    FROM medusa.stream_producer AS p WHERE p.line_id = line.line_id
    ON CONFLICT ON CONSTRAINT hold_pkey DO UPDATE
    SET from_us = excluded.from_us, versions = excluded.versions
$$;
COMMENT ON FUNCTION medusa_market.hold_billed(text, medusa_market.billed_line, jsonb) IS
    'Hold the rows of a billed line that are not counted yet, those that a later revision replaces '
    'among them; what is counted may be trimmed.';
