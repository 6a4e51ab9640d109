-- A buyer defines boxes under a contract, or withdraws them.
SELECT medusa_market.take_definition(:envelope_id, :contract, :definition, :number, :document,
    :is_withdrawal);
