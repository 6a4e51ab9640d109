-- What a contract would say after some edits; nothing is written.
SELECT medusa_market.what_if_edited(:contract, CAST(:edits AS jsonb))
