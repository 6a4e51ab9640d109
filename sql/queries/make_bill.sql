-- Keep this home's statement of a period, made from what is counted up to there; its hash.
SELECT medusa_market.make_bill(:document, :cut_us, :counts, :is_last);
