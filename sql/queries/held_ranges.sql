-- What is counted here of ranges of a contract that begin at these places.
SELECT b.from_us, b.rows, b.sum_a, b.sum_b FROM medusa_market.billed_range AS b
WHERE b.contract = :contract AND b.subject = '' AND b.from_us = ANY (:begins);
