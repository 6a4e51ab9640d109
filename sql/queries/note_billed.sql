-- Count the final rows that a contract bills in the period that is stated next; up to where all are
-- final, as JSON.
SELECT medusa_market.note_billed(:contract, :revision, :period, :from_ms, :to_us, :cut_us);
