CREATE OR REPLACE FUNCTION medusa.to_ms(at timestamptz) RETURNS bigint
LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT floor(extract(epoch FROM at) * 1000)::bigint $$;
COMMENT ON FUNCTION medusa.to_ms(timestamptz) IS 'Milliseconds since the epoch.';
