-- Answer a statement, or end the dispute about it; false if it was answered so before.
SELECT medusa_market.answer_bill(:statement, :outcome, :own, :amount, :blocked, :from_us, :to_us,
    :entries);
