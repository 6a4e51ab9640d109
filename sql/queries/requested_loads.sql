-- What payers offered last under the revisions in force, and the level reported to them.
SELECT w.contract, w.nonce, w.load, w.smallest, w.for_overload, w.reported_level
FROM medusa_market.requested_load AS w
JOIN medusa_api.contract_in_force AS c ON (c.contract, c.revision) = (w.contract, w.revision)
