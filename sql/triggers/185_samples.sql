-- What a payer has committed to, and what was found, is written once.

CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa_market.sample_seed
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON medusa_market.sample
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
