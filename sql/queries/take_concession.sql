-- A provider takes this home's own statement in a dispute.
SELECT medusa_market.take_concession(:envelope_id, :contract, :period, :statement, :amount,
    :entries);
