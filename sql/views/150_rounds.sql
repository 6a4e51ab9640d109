CREATE VIEW medusa_api.offers WITH (security_invoker = true) AS
    SELECT o.offer_id, o.round, o.is_own, o.partner, o.contract, CASE
            WHEN w.offer_id IS NOT NULL THEN 'open' WHEN l.offer_id IS NOT NULL THEN 'lapsed'
            ELSE 'answered' END AS state,
        o.level, o.price, o.items, o.load, a.accepted, a.load AS accepted_load, a.reason,
        o.for_overload, o.relays, o.because, o.made_at, w.expires_at, l.because AS lapsed_because,
        o.nonce, o.revision, o.sender_round
    FROM medusa_market.offer AS o
    LEFT JOIN medusa_market.open_offer AS w ON w.offer_id = o.offer_id
    LEFT JOIN medusa_market.offer_lapse AS l ON l.offer_id = o.offer_id
    LEFT JOIN medusa_market.answer AS a ON a.offer_id = o.offer_id AND NOT a.is_more;
COMMENT ON VIEW medusa_api.offers IS
    'Offers of load made and received by this home, their reasons and their outcomes.';

CREATE VIEW medusa_api.answers WITH (security_invoker = true) AS
    SELECT a.answer_id, a.round, a.is_own, o.partner, o.contract, a.reason, a.accepted, a.load,
        a.rooms, a.is_more, a.because, a.made_at, o.offer_id, o.nonce, a.sender_round
    FROM medusa_market.answer AS a JOIN medusa_market.offer AS o ON o.offer_id = a.offer_id;
COMMENT ON VIEW medusa_api.answers IS
    'Answers that this home gave and got, why, and how much more would be taken.';

CREATE VIEW medusa_api.agreed_moves WITH (security_invoker = true) AS
    SELECT move_id, round, is_given, partner, contract, fragment, partition, load, level, price,
        state, makes_room_for, agreed_at, expires_at, ended_at, revision
    FROM medusa_market.agreed_move;
COMMENT ON VIEW medusa_api.agreed_moves IS
    'Fragments that this home has agreed to give or to take, until they move or lapse.';

CREATE VIEW medusa_api.trading WITH (security_invoker = true) AS
    SELECT round_ms, move_ms, residence_ms, dead_band, partners_max FROM medusa_market.market;
COMMENT ON VIEW medusa_api.trading IS
    'How this participant trades: its owner changes it by UPDATE, from the next round on.';
