-- Who reads streams of this home through Delta Sharing, and how much.

CREATE VIEW medusa_api.recipient_tokens WITH (security_invoker = true) AS
    SELECT t.recipient, t.token_id, CASE
            WHEN t.revoked_at IS NOT NULL THEN 'revoked'
            WHEN t.expires_at <= clock_timestamp() THEN 'expired'
            ELSE 'valid' END AS state,
        t.issued_at, t.issued_by, t.expires_at, t.revoked_at
    FROM medusa_market.recipient_token AS t;
COMMENT ON VIEW medusa_api.recipient_tokens IS 'The tokens of recipients of Delta Sharing.';

CREATE VIEW medusa_api.recipient_grants WITH (security_invoker = true) AS
    SELECT g.stream, g.recipient, g.reason, g.granted_at, g.granted_by
    FROM medusa.recipient_grant AS g;
COMMENT ON VIEW medusa_api.recipient_grants IS
    'Which recipient may read which stream through Delta Sharing, and why; * is every recipient.';

CREATE VIEW medusa_api.recipient_usage WITH (security_invoker = true) AS
    SELECT u.recipient, u.day, NULLIF(u.stream, '') AS stream, u.requests, u.rows, u.bytes,
        u.last_at
    FROM medusa_market.recipient_usage AS u;
COMMENT ON VIEW medusa_api.recipient_usage IS
    'What recipients used, by day (UTC) and stream; stream NULL: requests that name none.';

CREATE VIEW medusa_api.recipients WITH (security_invoker = true) AS
    SELECT n.recipient,
        (SELECT count(*) FROM medusa_market.recipient_token AS t
        WHERE t.recipient = n.recipient AND t.revoked_at IS NULL
            AND t.expires_at > clock_timestamp()) AS tokens,
        (SELECT max(t.expires_at) FROM medusa_market.recipient_token AS t
        WHERE t.recipient = n.recipient AND t.revoked_at IS NULL
            AND t.expires_at > clock_timestamp()) AS expires_at,
        ARRAY(SELECT DISTINCT g.stream FROM medusa.recipient_grant AS g
            WHERE g.recipient IN (n.recipient, '*') ORDER BY g.stream) AS streams,
        coalesce(u.requests, 0) AS requests, coalesce(u.rows, 0) AS rows,
        coalesce(u.bytes, 0) AS bytes, u.last_at
    FROM (
        SELECT recipient FROM medusa_market.recipient_token
        UNION SELECT recipient FROM medusa.recipient_grant WHERE recipient <> '*'
    ) AS n
    LEFT JOIN (
        SELECT s.recipient, CAST(sum(s.requests) AS bigint) AS requests,
            CAST(sum(s.rows) AS bigint) AS rows, CAST(sum(s.bytes) AS bigint) AS bytes,
            max(s.last_at) AS last_at
        FROM medusa_market.recipient_usage AS s GROUP BY s.recipient
    ) AS u ON u.recipient = n.recipient;
COMMENT ON VIEW medusa_api.recipients IS
    'The recipients of Delta Sharing: their valid tokens and when the last of these expires, what they '
    'may read, and all that they used.';
