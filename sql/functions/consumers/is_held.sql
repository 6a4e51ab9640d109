CREATE OR REPLACE FUNCTION medusa.is_held(held medusa.hold) RETURNS boolean
LANGUAGE sql STABLE AS $$
    SELECT held.limit_ms IS NULL OR medusa.to_ms(held.placed_at)::numeric + held.limit_ms
        >= medusa.to_ms(clock_timestamp())
$$;
COMMENT ON FUNCTION medusa.is_held(medusa.hold) IS
    'Whether a hold has not expired.';
