CREATE OR REPLACE FUNCTION medusa.agree_to_revisions(request jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    args record;
    line medusa.stream_producer;
BEGIN
    SELECT * INTO args FROM jsonb_to_record(request) AS w (stream text, participant text,
        replica integer, generation integer, from_us bigint, because text, who text);
    PERFORM medusa.check_reason(args.because, args.who);
    SELECT p.* INTO line FROM medusa.stream_producer AS p
    WHERE (p.stream, p.participant, p.replica) = (args.stream, args.participant, args.replica);
    IF NOT FOUND THEN
        PERFORM medusa.refuse_without_line(args.stream, args.participant, args.replica);
    END IF;
    IF line.participant = (SELECT h.participant FROM medusa.home AS h) THEN
        RAISE EXCEPTION 'the line of % is written here: there is nobody to follow', args.stream
            USING ERRCODE = 'MD001';
    END IF;
    IF (args.generation > line.generation) IS NOT TRUE THEN
        RAISE EXCEPTION 'the line of % by % is followed to generation % already', args.stream,
            args.participant, line.generation USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa.recall_follow (line_id, generation, from_us, because, who, is_revision)
    VALUES (line.line_id, args.generation, args.from_us, args.because, args.who, true);
    PERFORM pg_notify('medusa_progress', '');
END $$;
COMMENT ON FUNCTION medusa.agree_to_revisions(jsonb) IS
    'The operator agrees to follow the revisions of a partner''s line, up to a generation.';
