-- A payer answers a statement of this home, or ends the dispute about it.
SELECT medusa_market.take_bill_answer(:envelope_id, :statement, :outcome, :own, :amount, :blocked,
    :from_us, :to_us, :entries, :signature, :public_key);
