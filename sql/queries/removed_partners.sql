-- The partners that the owner has removed, and that have not joined again since.
SELECT participant FROM medusa_market.partner WHERE is_removed ORDER BY participant;
