-- A payer hands a fragment over, adopts what this home computes of it, or ends its move.
SELECT medusa_market.take_move(:envelope_id, :contract, :number, :fragment, :state,
    :order_document, :price, :from_us, :to_us, :lost_us, :reason, :commitment,
    :first_period);
