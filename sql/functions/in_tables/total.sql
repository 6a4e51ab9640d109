CREATE OR REPLACE FUNCTION medusa.total(counts bigint[]) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
$$ SELECT coalesce(sum(n), 0)::bigint FROM unnest(counts) AS n $$;
COMMENT ON FUNCTION medusa.total(bigint[]) IS 'The sum of an array.';
