-- A partner says when a contract ends, by whose notice, and who has signed that.
SELECT medusa_market.take_notice(:envelope_id, :contract, CAST(:statements AS jsonb))
