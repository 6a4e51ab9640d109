-- The balance of each account by partner and currency.
SELECT a.partner, a.currency, a.account, a.balance::text AS balance, a.postings
FROM medusa_api.accounts AS a ORDER BY a.partner, a.currency, a.account LIMIT :most;
