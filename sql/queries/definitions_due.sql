-- The definitions of buyers that wait or run, with the terms under which they may.
SELECT d.definition_id, d.contract, d.buyer, d.name, d.document, d.state, d.stream, d.boxes, d.load_max,
    d.running_ms
FROM medusa_market.definitions_due() AS d;
