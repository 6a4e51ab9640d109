-- Take the payer's own statement in a dispute; false if there is none.
SELECT medusa_market.concede_bill(:contract, :period);
