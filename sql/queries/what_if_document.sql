-- What this home would propose with a document; nothing is written.
SELECT medusa_market.what_if_document(:document)
