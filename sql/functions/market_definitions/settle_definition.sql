CREATE OR REPLACE FUNCTION medusa_market.settle_definition(
    definition_id bigint, state text, reason text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    known medusa_market.definition;
BEGIN
    IF (settle_definition.state IN ('running', 'refused', 'ended')) IS NOT TRUE THEN
        RAISE EXCEPTION 'a definition runs, is refused or has ended, not %', settle_definition.state
            USING ERRCODE = 'MD001';
    END IF;
    UPDATE medusa_market.definition AS d SET state = settle_definition.state,
        reason = left(settle_definition.reason, 2000), settled_at = clock_timestamp()
    WHERE d.definition_id = settle_definition.definition_id
        AND d.buyer <> medusa_market.here() AND CASE settle_definition.state
            WHEN 'ended' THEN d.state IN ('waiting', 'running') ELSE d.state = 'waiting' END
    RETURNING d.* INTO known;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF known.state = 'ended' THEN
        PERFORM medusa.stop_network(known.buyer || '__' || known.name);
    END IF;
    PERFORM medusa_market.put_out(known.buyer, 'defined', 'defined/' || known.name || '/'
        || known.state, jsonb_build_object('contract', known.contract, 'name', known.name,
            'state', known.state, 'reason', known.reason));
    PERFORM pg_notify('medusa_progress', '');
    RETURN true;
END $$;
COMMENT ON FUNCTION medusa_market.settle_definition(bigint, text, text) IS
    'For jobs of the seller: a definition runs, is refused, or has ended; the buyer receives it. False '
    'if that is known.';
