CREATE OR REPLACE FUNCTION medusa_market.return_fragment(fragment text, reason text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    known medusa_market.move;
BEGIN
    PERFORM medusa_market.begin_market();
    SELECT m.* INTO known FROM medusa_market.move AS m
    WHERE m.is_given AND m.fragment = return_fragment.fragment AND m.state <> 'ended' FOR UPDATE;
    RETURN known.state = 'returning' OR known.move_id IS NOT NULL AND medusa_market.note_settled(
        known.move_id, CASE known.state WHEN 'released' THEN 'returning' ELSE 'ended' END,
        return_fragment.reason);
END $$;
COMMENT ON FUNCTION medusa_market.return_fragment(text, text) IS
    'For jobs of the payer: take a fragment back; false if it has not moved.';
