-- A definition of a buyer runs, is refused, or has ended; false if that is known.
SELECT medusa_market.settle_definition(:definition_id, :state, :reason);
