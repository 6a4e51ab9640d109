-- The balance of each account by partner and currency; of one partner, or of all.
SELECT a.partner, a.currency, a.account, a.balance FROM medusa_api.accounts AS a
WHERE a.partner = coalesce(:partner, a.partner) ORDER BY a.partner, a.currency, a.account;
