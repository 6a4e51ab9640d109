CREATE OR REPLACE FUNCTION medusa.refuse_without_line(
    stream text, participant text, replica integer
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'stream % has no line by %/%: deploy an assignment of its fragment first',
        stream, participant, replica USING ERRCODE = 'MD001';
END $$;
COMMENT ON FUNCTION medusa.refuse_without_line(text, text, integer) IS
    'Raises: nothing can be written where no line is.';
