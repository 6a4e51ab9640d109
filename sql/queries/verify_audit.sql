-- The first line of the audit that is missing or not as it was written, if any.
SELECT medusa_market.verify_audit()
