-- How often a partner joins or moves is limited: its lines in the audit are counted.
CREATE INDEX audit_moves ON medusa_market.audit (subject, at)
    WHERE what IN ('partner', 'moved partner');
COMMENT ON INDEX medusa_market.audit_moves IS 'How often a partner joins or moves.';
