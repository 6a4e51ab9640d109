-- A verified envelope's answer ends the offer that it names; its number.
SELECT medusa_market.take_answer(:envelope_id, CAST(:keeps AS jsonb), CAST(:judged_at AS bigint))
