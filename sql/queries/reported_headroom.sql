-- The last answers of providers under the revisions in force, and to which offers.
SELECT c.contract, a.body, a.round, a.is_more, o.level, o.body AS offered
FROM medusa_api.contract_in_force AS c
JOIN medusa_market.last_word AS w ON w.contract = c.contract AND NOT w.is_own
JOIN medusa_market.answer AS a ON a.answer_id = w.answer_id
JOIN medusa_market.offer AS o ON o.offer_id = a.offer_id
WHERE o.revision = c.revision
