-- Send statements again that have had no answer for a day; how many.
SELECT medusa_market.bills_again();
