-- A payer hands a fragment over, or ends its move.
SELECT medusa_market.take_move(:envelope_id, :contract, :number, :fragment, :order_document,
    :reason);
