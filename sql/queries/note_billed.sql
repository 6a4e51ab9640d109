-- Count the final rows of a sold stream in the period that is stated next; up to where, as JSON.
SELECT medusa_market.note_billed(:contract, :period, :from_ms, :to_us, :cut_us);
