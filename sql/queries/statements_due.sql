-- What this home is to state and sign, in some order.
SELECT d.statement FROM medusa_market.statement_due AS d ORDER BY d.statement LIMIT :statements_max
