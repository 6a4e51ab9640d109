CREATE OR REPLACE FUNCTION medusa.published_news(
    partner text, stream text, replica integer, after bigint, segments_max integer
) RETURNS jsonb
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF medusa.published_line(published_news.partner, published_news.stream,
        published_news.replica) IS NOT TRUE
    THEN
        RETURN NULL;
    END IF;
    IF (published_news.segments_max BETWEEN 1 AND 10000 AND published_news.after >= 0) IS NOT TRUE
    THEN
        RAISE EXCEPTION 'news after version % with % segments cannot be sent: request a version '
            'from 0 on, and 1 to 10000 segments', published_news.after, published_news.segments_max
            USING ERRCODE = 'MD001';
    END IF;
    RETURN medusa.line_news(published_news.stream, h.participant, published_news.replica,
        published_news.after, published_news.segments_max) FROM medusa.home AS h;
END $$;
COMMENT ON FUNCTION medusa.published_news(text, text, integer, bigint, integer) IS
    'For the exchange server: line_news of a line of this home, for a partner that may read it. NULL '
    'for everything else, whether it is there or not.';
