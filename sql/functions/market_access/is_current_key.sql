CREATE OR REPLACE FUNCTION medusa_market.is_current_key(
    participant text, public_key bytea
) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (
        SELECT EXISTS (
            SELECT FROM medusa_market.party_key AS k
            WHERE k.participant = is_current_key.participant AND NOT k.is_past
                AND k.public_key = is_current_key.public_key
                AND NOT EXISTS (
                    SELECT FROM medusa_market.party_key AS newer
                    WHERE newer.participant = k.participant AND NOT newer.is_past
                        AND newer.key_id > k.key_id AND NOT (newer.is_succession
                            AND newer.learned_at > clock_timestamp() - interval '7 days')))
            AND NOT EXISTS (SELECT FROM medusa_market.key_disowned AS d
                WHERE d.public_key = is_current_key.public_key)
            AND NOT EXISTS (SELECT FROM medusa_market.partner AS p
                WHERE p.participant = is_current_key.participant AND (p.is_removed
                    OR p.confirmed_at IS NULL AND p.lapses_at <= clock_timestamp()))
    );
END $$;
COMMENT ON FUNCTION medusa_market.is_current_key(text, bytea) IS
    'Whether a participant is known here by this key now: by its newest one, or by one that newer '
    'keys have succeeded within 7 days. A partner that was removed has none.';
