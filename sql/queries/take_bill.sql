-- A provider bills this home.
SELECT medusa_market.take_bill(:envelope_id, :document, :signature, :public_key);
