CREATE OR REPLACE FUNCTION medusa_market.expire_market() RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    waiting medusa_market.open_offer;
    now_is timestamptz;
    ended  integer := 0;
    moves  integer;
    now_in bigint;
BEGIN
    now_is := clock_timestamp();
    SELECT coalesce(max(r.number), 0) INTO now_in FROM medusa_market.round AS r;
    IF NOT EXISTS (SELECT FROM medusa_market.open_offer AS o WHERE o.expires_at <= now_is)
        AND NOT EXISTS (
            SELECT FROM medusa_market.agreed_move AS m
            WHERE m.state = 'granted' AND m.round < now_in
                OR m.state = 'accepted' AND m.expires_at <= now_is AND NOT EXISTS (
                    SELECT FROM medusa_market.move AS o WHERE o.agreed_id = m.move_id))
    THEN
        RETURN 0;
    END IF;
    PERFORM medusa_market.begin_market();
    FOR waiting IN SELECT * FROM medusa_market.open_offer AS o WHERE o.expires_at <= now_is
        ORDER BY o.offer_id
    LOOP
        PERFORM medusa_market.lapse_offer(waiting, 'it was not answered in time');
        ended := ended + 1;
        CONTINUE WHEN NOT waiting.is_own;
        INSERT INTO medusa_market.silent_partner AS s (partner, missed, since, asks_round)
        VALUES (waiting.partner, 1, now_is, now_in + 2)
        ON CONFLICT (partner) DO UPDATE SET missed = s.missed + 1,
            asks_round = now_in + 1 + least(1 << least(s.missed, 4), 16);
    END LOOP;
    UPDATE medusa_market.agreed_move AS m SET state = 'lapsed', ended_at = now_is
    WHERE m.state = 'granted' AND m.round < now_in
        OR m.state = 'accepted' AND m.expires_at <= now_is
            AND NOT EXISTS (SELECT FROM medusa_market.move AS o WHERE o.agreed_id = m.move_id);
    GET DIAGNOSTICS moves = ROW_COUNT;
    RETURN ended + moves;
END $$;
COMMENT ON FUNCTION medusa_market.expire_market() IS
    'Expire offers and agreed moves whose time has passed; returns how many. A partner that '
    'has not answered gets no offers for a while, longer each time.';
