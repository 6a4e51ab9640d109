-- Applied before the grants, for PUBLIC and all roles at once: nothing of a home is everybody's, and a
-- role has what its file says and no more. A column's rights go with those of its table.
REVOKE ALL ON SCHEMA medusa, medusa_market, medusa_api FROM :roles;
REVOKE ALL ON ALL TABLES IN SCHEMA medusa, medusa_market, medusa_api FROM :roles;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA medusa, medusa_market, medusa_api FROM :roles;

-- Advisory locks and large objects take space of the server that all homes share: one session with some
-- 12,800 locks fills its lock table, and then nobody can log in. Only a superuser can revoke them; the
-- owner of the home keeps the lock by which migrations wait for one another.
DO $$
DECLARE
    home_owner CONSTANT name := current_user;
    shared regprocedure;
BEGIN
    IF NOT (SELECT r.rolsuper FROM pg_roles AS r WHERE r.rolname = session_user) THEN
        RETURN;
    END IF;
    SET LOCAL ROLE NONE;
    FOR shared IN
        SELECT p.oid FROM pg_proc AS p
        WHERE p.pronamespace = 'pg_catalog'::regnamespace
            AND (p.proname ~ '^pg_(try_)?advisory_(xact_)?lock' OR p.proname ~ '^lo(_|read$|write$)')
            AND has_function_privilege('public', p.oid, 'EXECUTE')
    LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', shared);
    END LOOP;
    EXECUTE format('GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO %I', home_owner);
    EXECUTE format('SET LOCAL ROLE %I', home_owner);
END
$$;
