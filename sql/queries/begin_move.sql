-- Hand a fragment over under a movement contract.
SELECT medusa_market.begin_move(:contract, :number, :fragment, :order_document, :reason);
