-- The first line of the audit that is missing or not as it was written, if any.
SELECT medusa.verify_audit()
