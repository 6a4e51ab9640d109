-- Propose the terms of a contract's document to the partner; its revision.
SELECT medusa_market.propose_document(:document, :lasts_ms, :because)
