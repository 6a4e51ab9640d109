-- What a person may have to do about in this home, each with its figures as JSON: blocked sinks,
-- producers that differ, laws that the last certificate of a window of seven days found broken,
-- gaps that lost providers left and that are shown still, proposals of partners, disputes about
-- bills, refused envelopes of a day, and records in quarantine of a day. Of certificates the newest
-- 20000 are looked at.
WITH recent AS MATERIALIZED (
    SELECT certificate_id, stream, law, suite, from_us, to_us, passed, certified_at
    FROM medusa.certificate ORDER BY certificate_id DESC LIMIT 20000)
SELECT 'sink_blocked' AS kind, s.stream AS subject, medusa.to_ms(s.delivered_at) AS since_ms,
    jsonb_build_object('sink', s.name, 'because', s.problem) AS figures
FROM medusa.sink AS s WHERE s.problem IS NOT NULL
UNION ALL
SELECT 'diverged', d.stream, medusa.to_ms(min(d.noticed_at)), jsonb_build_object(
    'producer', min(d.participant), 'other', min(d.other_participant), 'buckets', count(*),
    'from_us', min(d.bucket_us))
FROM medusa_api.divergences AS d GROUP BY d.stream
UNION ALL
SELECT 'law_broken', c.stream, medusa.to_ms(c.certified_at), jsonb_build_object(
    'law', c.law, 'suite', c.suite, 'from_us', c.from_us, 'to_us', c.to_us,
    'window', c.from_us || '-' || c.to_us)
FROM (SELECT b.* FROM recent AS b
    WHERE NOT b.passed AND b.certified_at > clock_timestamp() - interval '7 days'
        AND NOT EXISTS (SELECT FROM recent AS later
            WHERE later.stream = b.stream AND later.law = b.law AND later.from_us = b.from_us
                AND later.to_us = b.to_us AND later.certificate_id > b.certificate_id)
    ORDER BY b.certificate_id LIMIT 100) AS c
UNION ALL
SELECT 'alarm_gap', o.fragment, max(s.to_us) / 1000, jsonb_build_object(
    'provider', o.participant, 'from_us', min(s.from_us), 'to_us', max(s.to_us))
FROM (SELECT w.*, lead(w.from_us) OVER (PARTITION BY w.fragment, w.partition ORDER BY w.epoch)
        AS to_us FROM medusa.fragment_owner AS w) AS o
CROSS JOIN medusa.home AS h
JOIN medusa.fragment AS f ON f.id = o.fragment
JOIN medusa.stream_producer AS p ON p.stream = ANY (f.outputs) AND p.participant = h.participant
    AND p.replica = 0
JOIN medusa.segment AS s ON s.line_id = p.line_id AND s.end_version IS NULL
    AND s.stability = 'gap' AND s.to_us > o.from_us AND s.from_us < o.to_us
WHERE o.timeout_ms >= CAST(:never_ms AS bigint) AND o.from_us < o.to_us
    AND o.to_us > (medusa.to_ms(clock_timestamp()) - CAST(:shown_ms AS bigint)) * 1000
GROUP BY o.fragment, o.participant
UNION ALL
SELECT 'contract_requested', p.contract, medusa.to_ms(p.made_at), jsonb_build_object(
    'partner', p.proposed_by, 'expires_at_ms', medusa.to_ms(p.expires_at))
FROM medusa_market.contract_proposal AS p CROSS JOIN medusa.home AS h
WHERE p.state = 'open' AND p.proposed_by <> h.participant AND p.expires_at > clock_timestamp()
UNION ALL
SELECT 'bill_disputed', b.contract, medusa.to_ms(b.noted_at), jsonb_build_object(
    'period', b.period, 'claimed', b.claimed, 'agreed', b.agreed, 'currency', b.currency)
FROM medusa_api.bill_disputes AS b WHERE b.state = 'open'
UNION ALL
SELECT 'envelopes_refused', i.sender, medusa.to_ms(max(i.received_at)), jsonb_build_object(
    'envelopes', count(*), 'because', (array_agg(i.reason ORDER BY i.envelope_id DESC))[1])
FROM medusa_market.inbox AS i
WHERE i.state = 'refused' AND i.received_at > clock_timestamp() - interval '1 day'
GROUP BY i.sender
UNION ALL
SELECT 'quarantined', q.stream, medusa.to_ms(max(q.quarantined_at)), jsonb_build_object(
    'records', count(*), 'because', (array_agg(q.reason ORDER BY q.quarantine_id DESC))[1])
FROM (SELECT * FROM medusa.quarantine ORDER BY quarantine_id DESC LIMIT 10000) AS q
WHERE q.quarantined_at > clock_timestamp() - interval '1 day'
GROUP BY q.stream
LIMIT 1000;
