CREATE OR REPLACE FUNCTION medusa_market.subject_range(name text) RETURNS int8range
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN name IS NULL THEN int8range(NULL, NULL) ELSE int8range(h, h, '[]') END
    FROM (SELECT (('x' || left(encode(sha256(convert_to(name, 'UTF8')), 'hex'),
        16))::bit(64)::bigint
        & 4611686018427387903) AS h) AS hashed
$$;
COMMENT ON FUNCTION medusa_market.subject_range(text) IS
    'A text as a range that overlaps that of the same text only (by 62 bits of SHA-256), and NULL '
    'as one that overlaps all: exclusion constraints need ranges where no extension is.';
