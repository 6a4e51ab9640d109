-- What this home would propose with a document; nothing is written.
SELECT medusa.what_if_document(:document)
