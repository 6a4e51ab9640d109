-- The login of the operator's page sees proposals as the owner does.
CREATE POLICY all_for_page ON medusa_market.contract_revision FOR SELECT USING (
    current_user = current_database() || '_page');
CREATE POLICY all_for_page ON medusa_market.contract_proposal FOR SELECT USING (
    current_user = current_database() || '_page');
CREATE POLICY all_for_page ON medusa_market.contract_signature FOR SELECT USING (
    current_user = current_database() || '_page');
COMMENT ON POLICY all_for_page ON medusa_market.contract_revision IS
    'The operator''s page shows what is proposed.';
COMMENT ON POLICY all_for_page ON medusa_market.contract_proposal IS
    'The operator''s page shows what is proposed.';
COMMENT ON POLICY all_for_page ON medusa_market.contract_signature IS
    'The operator''s page shows what is proposed.';
