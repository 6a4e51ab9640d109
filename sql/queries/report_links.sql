-- Add what this process has counted of its links since its last report; how many links were written.
SELECT medusa_market.report_links(:side, CAST(:reports AS jsonb));
