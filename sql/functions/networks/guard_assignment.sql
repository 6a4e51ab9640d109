CREATE OR REPLACE FUNCTION medusa.guard_assignment() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone record;
BEGIN
    SELECT i.stream, i.trimmed_us INTO gone
    FROM medusa.fragment AS f
    JOIN medusa.home AS h ON h.participant = NEW.participant
    JOIN medusa.stream_producer AS i ON i.stream = ANY (f.inputs) AND i.trimmed_us IS NOT NULL
    JOIN medusa.stream_producer AS o ON o.stream = ANY (f.outputs) AND o.boundary_us IS NULL
        AND (o.participant, o.replica) = (NEW.participant, NEW.replica)
    WHERE f.id = NEW.fragment LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'fragment % would begin without what % has lost before %: let it read a '
            'stream that is whole', NEW.fragment, gone.stream, gone.trimmed_us
            USING ERRCODE = 'MD001';
    END IF;
    RETURN NEW;
END $$;
COMMENT ON FUNCTION medusa.guard_assignment() IS
    'No output begins over input that is gone, as if there had been none.';
