CREATE OR REPLACE FUNCTION medusa.commit_steps(requests jsonb) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    one     record;
    answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(requests)]);
    state   text;
    message    text;
BEGIN
    PERFORM medusa.lock_leases(requests);
    FOR one IN
        SELECT w.value AS request, w.ordinality AS i
        FROM jsonb_array_elements(requests) WITH ORDINALITY AS w
        ORDER BY w.value->>'fragment' COLLATE "C", w.value->>'partition', w.ordinality
    LOOP
        BEGIN
            answers[one.i] := medusa.commit_step(one.request);
        EXCEPTION WHEN OTHERS THEN
            -- What this one wrote is undone; what the others wrote is not.
            GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, message = MESSAGE_TEXT;
            answers[one.i] := jsonb_build_object('sqlstate', state, 'message', message);
        END;
    END LOOP;
    RETURN to_jsonb(answers);
END $$;
COMMENT ON FUNCTION medusa.commit_steps(jsonb) IS
    'Several commits, each whole or not at all; for each its answer, or the error that refused it.';
