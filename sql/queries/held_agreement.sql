-- What is held where a document belongs that both have signed, as JSON.
SELECT medusa_market.held_agreement(:document, :envelope_id)::text
