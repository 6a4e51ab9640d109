CREATE OR REPLACE FUNCTION medusa_market.take_envelopes(envelopes jsonb) RETURNS text[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    given   jsonb;
    crowded text[];
    answers text[] := '{}';
BEGIN
    IF (pg_column_size(envelopes) <= 16777216 AND jsonb_typeof(envelopes) = 'array'
        AND jsonb_array_length(envelopes) <= 64) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'envelopes come in a list of 64 at most, 16 MiB in all: send fewer'
            USING ERRCODE = 'MD001';
    END IF;
    crowded := ARRAY(
        SELECT n.sender || '/' || n.room FROM (
            SELECT DISTINCT e->>'sender' AS sender, medusa_market.room_of(e->>'kind') AS room
            FROM jsonb_array_elements(envelopes) AS e) AS n
        WHERE (SELECT count(*) FROM medusa_market.inbox AS i
            WHERE i.state IN ('verified', 'handled') AND i.sender = n.sender
                AND medusa_market.room_of(i.kind) = n.room) >= 32768);
    FOR given IN SELECT e FROM jsonb_array_elements(envelopes) AS e LOOP
        answers := answers || medusa_market.take_envelope(given, crowded);
    END LOOP;
    RETURN answers;
END $$;
COMMENT ON FUNCTION medusa_market.take_envelopes(jsonb) IS
    'Put envelopes into the inbox unchanged, and do nothing else: 64 at a time, '
    '96 KiB each, from participants with a known key. Of a sender 256 wait in each of its two '
    'rooms from one address, and 32,768 are remembered until they are stale. Returns for each: '
    'taken (also if it arrived before), refused or full.';
