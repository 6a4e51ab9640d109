CREATE OR REPLACE FUNCTION medusa.record_transition(
    fragment text, partition integer, participant text, replica integer, state text, because text
) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    was text;
BEGIN
    PERFORM FROM medusa.fragment AS f WHERE f.id = record_transition.fragment FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fragment % is not deployed here: deploy its network first',
            record_transition.fragment USING ERRCODE = 'MD001';
    END IF;
    SELECT t.state INTO was FROM medusa.transition AS t
    WHERE (t.fragment, t.partition, t.participant, t.replica) = (record_transition.fragment,
        record_transition.partition, record_transition.participant, record_transition.replica)
    ORDER BY t.transition_id DESC LIMIT 1;
    IF coalesce(was, 'STABLE') = record_transition.state THEN
        RETURN false;
    END IF;
    INSERT INTO medusa.transition (fragment, partition, participant, replica, state, because)
    VALUES (record_transition.fragment, record_transition.partition, record_transition.participant,
        record_transition.replica, record_transition.state, record_transition.because);
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa.record_transition(text, integer, text, integer, text, text) IS
    'Record that a fragment changed its state; the same state again has no effect.';
