CREATE OR REPLACE FUNCTION medusa_market.json_list(texts text[]) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN texts IS NULL THEN 'null' ELSE '[' || coalesce((
        SELECT string_agg('"' || t || '"', ',' ORDER BY t COLLATE "C") FROM unnest(texts) AS t
    ), '') || ']' END
$$;
COMMENT ON FUNCTION medusa_market.json_list(text[]) IS 'Names as a sorted list in JSON.';
