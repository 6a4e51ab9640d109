-- Who may call the exchange server of this home.

CREATE VIEW medusa_api.partners WITH (security_invoker = true) AS
    SELECT n.participant, CASE
            WHEN p.is_removed AND (i.expires_at > clock_timestamp()) IS NOT TRUE THEN 'removed'
            WHEN p.confirmed_at IS NULL AND p.lapses_at > clock_timestamp() THEN 'unconfirmed'
            WHEN k.public_key IS NOT NULL AND NOT coalesce(p.is_removed, false)
                AND (p.participant IS NULL OR p.confirmed_at IS NOT NULL) THEN 'partner'
            WHEN i.expires_at > clock_timestamp() THEN 'invited'
            ELSE 'lapsed' END AS state,
        p.url, p.pin, encode(k.public_key, 'hex') AS public_key, k.learned_at AS key_since,
        p.changed_at, p.changed_by, p.confirmed_at, p.heard_at, i.expires_at AS invited_until
    FROM (
        SELECT participant FROM medusa_market.party_key WHERE NOT is_past
        UNION SELECT participant FROM medusa_market.partner
        UNION SELECT partner FROM medusa_market.invitation
    ) AS n
    JOIN medusa.home AS h ON h.participant <> n.participant
    LEFT JOIN medusa_market.partner AS p ON p.participant = n.participant
    LEFT JOIN medusa_market.invitation AS i ON i.partner = n.participant
    LEFT JOIN LATERAL (
        SELECT e.public_key, e.learned_at FROM medusa_market.party_key AS e
        WHERE e.participant = n.participant AND NOT e.is_past
        ORDER BY e.key_id DESC LIMIT 1
    ) AS k ON true;
COMMENT ON VIEW medusa_api.partners IS
    'The partners of this home, and who was removed, is invited, has joined without proving its key '
    'yet (unconfirmed), or has not done so in time (lapsed).';

CREATE VIEW medusa_api.definitions WITH (security_invoker = true) AS
SELECT d.name, d.contract, d.buyer, d.state, d.reason, d.buyer || '__' || d.name AS stream,
    d.noted_at, d.settled_at, d.document, (
        SELECT sum(p.cpu_us) / 1000000.0 FROM medusa_market.load_part AS p
        JOIN medusa.fragment AS f ON f.id = p.fragment
        WHERE f.network = d.buyer || '__' || d.name) AS cpu_s
FROM medusa_market.definition AS d;
COMMENT ON VIEW medusa_api.definitions IS
    'Boxes that buyers defined over streams of this home, and that this home defined elsewhere: how '
    'far each has come, and the CPU seconds that it has taken here, as far as samples are kept.';

CREATE VIEW medusa_api.stream_grants WITH (security_invoker = true) AS
    SELECT g.stream, g.partner, g.reason, NULL::text AS contract, g.granted_by,
        g.granted_at AS since
    FROM medusa.stream_grant AS g
    UNION ALL
    SELECT c.stream, c.payer, 'contract', c.contract, NULL, lower(c.validity)
    FROM medusa_api.contract_in_force AS c JOIN medusa.home AS h ON h.participant = c.provider
    WHERE c.kind = 'content';
COMMENT ON VIEW medusa_api.stream_grants IS
    'Which partner may read which stream of this home, why, and since when; a pair has a row for '
    'each reason.';

CREATE VIEW medusa_api.links WITH (security_invoker = true) AS
    SELECT l.partner, l.side, l.state, l.state_since, l.error, l.failed_at, l.answered_at,
        l.requests, l.failures, l.files, l.bytes_received, l.bytes_sent, l.answer_ms,
        l.answer_ms_max, l.delay_ms, l.delay_ms_max, l.counted_since, l.reported_at
    FROM medusa_market.link AS l;
COMMENT ON VIEW medusa_api.links IS
    'What was sent and received over the links with partners, also with those that were removed; '
    'client: requests of this home, server: requests of the partner.';
