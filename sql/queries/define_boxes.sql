-- Send the seller boxes over the stream that a contract sells.
SELECT medusa_market.define_boxes(:contract, :definition, :document);
