-- Open disputes about statements of this home in which the payer names wrong samples, and which this
-- home has not given up a short time ago.
SELECT d.contract, d.period FROM medusa_api.bill_disputes AS d
JOIN medusa.home AS h ON h.participant = d.provider
JOIN medusa_market.bill_answer AS a ON (a.contract, a.period, a.step) = (d.contract, d.period, 1)
WHERE d.state = 'open'
    AND convert_from(a.own, 'UTF8')::jsonb->'charges' @? '$[*][0] ? (@ == "sample")'
    AND NOT EXISTS (SELECT FROM medusa_market.outbox AS o
        WHERE o.receiver = d.payer AND o.about = 'bill_concession/' || d.contract || '/' || d.period
            AND o.put_at > clock_timestamp() - interval '1 day')
ORDER BY d.contract, d.period;
