CREATE VIEW medusa_api.contract WITH (security_invoker = true) AS
    WITH chosen AS (
        SELECT DISTINCT ON (c.contract) c.contract, c.revision, c.place, c.expires_at
        FROM (
            SELECT p.contract, p.revision, CASE p.proposed_by WHEN h.participant THEN 1 ELSE 3 END
                AS place, p.expires_at, 0::bigint AS number
            FROM medusa_market.contract_proposal AS p CROSS JOIN medusa.home AS h
            WHERE p.state = 'open'
            UNION ALL
            SELECT a.contract, a.revision, 2, NULL, a.number
                FROM medusa_market.contract_agreement AS a
        ) AS c
        ORDER BY c.contract, c.place, c.number DESC
    )
    SELECT c.contract,
        CASE c.place WHEN 1 THEN 'proposed' WHEN 3 THEN 'requested' ELSE
            CASE WHEN least(upper(r.validity), n.ends_at) <= clock_timestamp() THEN 'ended'
                WHEN v.revision = c.revision AND lower(r.validity) <= clock_timestamp()
                    THEN 'in force'
                ELSE 'agreed' END END AS state,
        r.number, r.kind, r.payer, r.provider, r.currency, r.validity, r.settlement_ms, r.notice_ms,
        r.price_low, r.price_high, r.price_step, r.fragments, r.load_max, r.reference, r.verify,
        r.recovery,
        r.method, r.replicas, r.bound_ms, r.penalty, r.hold_ms_max, r.stream, r.price, r.per,
        r.instead, r.boxes, r.reads, c.expires_at, n.ends_at, c.revision, v.revision AS active_revision,
        o.revision AS partner_proposes
    FROM chosen AS c
    JOIN medusa_market.contract_revision AS r ON r.revision = c.revision
    CROSS JOIN medusa.home AS h
    LEFT JOIN LATERAL (
        SELECT a.revision FROM medusa_market.contract_activation AS a WHERE a.contract = c.contract
        ORDER BY a.number DESC LIMIT 1) AS v ON true
    CROSS JOIN LATERAL (SELECT medusa_market.ends_at(c.contract) AS ends_at) AS n
    LEFT JOIN medusa_market.contract_proposal AS o ON o.contract = c.contract AND o.state = 'open'
        AND o.proposed_by <> h.participant;
COMMENT ON VIEW medusa_api.contract IS
    'This home''s copy of each contract, which its owner edits: its own proposal (state '
    'proposed), else the agreement (agreed, in force from the next round on, or ended), else '
    'the partner''s proposal (requested). UPDATE proposes, INSERT proposes a new one, DELETE '
    'withdraws or gives notice.';

CREATE VIEW medusa_api.contract_in_force WITH (security_invoker = true) AS
    SELECT r.contract, v.round, r.number, r.revision, r.document, r.kind, r.payer, r.provider,
        r.currency, tstzrange(lower(r.validity), least(upper(r.validity), n.ends_at)) AS validity,
        r.stream
    FROM medusa_market.contract_activation AS v
    JOIN medusa_market.contract_revision AS r ON r.revision = v.revision
    CROSS JOIN LATERAL (SELECT medusa_market.ends_at(r.contract) AS ends_at) AS n
    WHERE NOT EXISTS (
        SELECT FROM medusa_market.contract_activation AS later
        WHERE later.contract = v.contract AND later.number > v.number)
        AND lower(r.validity) <= clock_timestamp()
        AND least(upper(r.validity), n.ends_at) > clock_timestamp();
COMMENT ON VIEW medusa_api.contract_in_force IS
    'The terms of contracts that are active and valid now, and from which round on.';

CREATE VIEW medusa_api.contract_proposals WITH (security_invoker = true) AS
    SELECT p.contract, p.proposal_id, p.proposed_by, CASE WHEN p.state = 'agreed' AND NOT EXISTS (
            SELECT FROM medusa_market.contract_agreement AS a WHERE a.revision = p.revision)
            THEN 'void' ELSE p.state END AS state, r.number, p.made_at, p.expires_at,
        p.ended_at, p.who, p.because, (
            SELECT string_agg(format('%s %s -> %s', f.key, coalesce(b.value, 'nothing'),
                coalesce(f.value, 'nothing')), ', ' ORDER BY f.key)
            FROM jsonb_each_text(to_jsonb(r) - ARRAY['revision', 'document', 'number', 'supersedes',
                'known_at']) AS f (key, value)
            LEFT JOIN jsonb_each_text(to_jsonb(s)) AS b (key, value) ON b.key = f.key
            WHERE s.revision IS NOT NULL AND f.value IS DISTINCT FROM b.value) AS changes,
        ARRAY(SELECT DISTINCT g.party FROM medusa_market.contract_signature AS g
            WHERE g.revision = p.revision
            ORDER BY g.party) AS signed_by, p.revision
    FROM medusa_market.contract_proposal AS p
    JOIN medusa_market.contract_revision AS r ON r.revision = p.revision
    LEFT JOIN medusa_market.contract_revision AS s ON s.revision = r.supersedes;
COMMENT ON VIEW medusa_api.contract_proposals IS
    'Edits of either party, their changes, and their outcomes.';

CREATE VIEW medusa_api.contract_history WITH (security_invoker = true) AS
    SELECT r.contract, r.number, a.agreed_at, v.round, v.activated_at, r.revision, r.document,
        ARRAY(SELECT DISTINCT g.party FROM medusa_market.contract_signature AS g
            WHERE g.revision = r.revision
            ORDER BY g.party) AS signed_by
    FROM medusa_market.contract_agreement AS a
    JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
    LEFT JOIN medusa_market.contract_activation AS v ON v.revision = a.revision;
COMMENT ON VIEW medusa_api.contract_history IS
    'Every agreed revision of every contract, and from which round on it was active here.';

CREATE VIEW medusa_api.contract_notices WITH (security_invoker = true) AS
    SELECT contract, given_by, stated_by, ends_at, noted_at FROM medusa_market.contract_notice;
COMMENT ON VIEW medusa_api.contract_notices IS
    'Notices that end contracts, as stated by either party; medusa_api.contract shows when a '
    'contract ends.';

CREATE VIEW medusa_api.contract_voids WITH (security_invoker = true) AS
    SELECT contract, number, revision, because, voided_at FROM medusa_market.contract_void;
COMMENT ON VIEW medusa_api.contract_voids IS
    'Agreements that count no more here, and why: both homes keep another one, or none.';

CREATE VIEW medusa_api.party_keys WITH (security_invoker = true) AS
    SELECT k.participant, encode(k.public_key, 'hex') AS public_key, k.learned_at, k.learned_by,
        k.because, NOT k.is_past AND NOT EXISTS (
            SELECT FROM medusa_market.party_key AS n
            WHERE n.participant = k.participant AND n.key_id > k.key_id
                AND NOT n.is_past) AS counts, d.disowned_at
    FROM medusa_market.party_key AS k
    LEFT JOIN medusa_market.key_disowned AS d ON d.public_key = k.public_key;
COMMENT ON VIEW medusa_api.party_keys IS
    'The keys of this home and its partners, now and before.';

CREATE VIEW medusa_api.rounds WITH (security_invoker = true) AS
    SELECT number, opened_at, opened_by, because FROM medusa_market.round;
COMMENT ON VIEW medusa_api.rounds IS 'Rounds of this home.';

CREATE VIEW medusa_api.inbox WITH (security_invoker = true) AS
    SELECT i.envelope_id, i.sender, i.kind, i.state, i.reason, i.repeats + (
            SELECT count(*) FROM medusa_market.inbox_repeat AS r
                WHERE r.envelope_id = i.envelope_id)
            AS repeats,
        i.received_at, i.ended_at, i.bytes, i.nonce
    FROM medusa_market.inbox AS i;
COMMENT ON VIEW medusa_api.inbox IS
    'Received envelopes: received, verified, handled, or refused and why.';

CREATE VIEW medusa_api.outbox WITH (security_invoker = true) AS
    SELECT message_id, receiver, kind, about, put_at, acknowledged_at, problem
        FROM medusa_market.outbox;
COMMENT ON VIEW medusa_api.outbox IS
    'Messages to partners, and whether they have arrived.';

CREATE VIEW medusa_api.audit WITH (security_invoker = true) AS
    SELECT audit_id, at, who, what, subject, before, after FROM medusa_market.audit;
COMMENT ON VIEW medusa_api.audit IS
    'Actions on agreements; medusa_market.verify_audit() shows whether the audit is complete.';

CREATE TRIGGER edit INSTEAD OF INSERT OR UPDATE OR DELETE ON medusa_api.contract
    FOR EACH ROW EXECUTE FUNCTION medusa_market.edit_contract();
