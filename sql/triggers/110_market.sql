-- Which guard watches which table of contracts, messages, load and offers.

DO $$
DECLARE
    logged regclass;
BEGIN
    FOREACH logged IN ARRAY ARRAY[
        'medusa_market.party_key', 'medusa_market.key_disowned',
        'medusa_market.contract_revision', 'medusa_market.contract_signature',
        'medusa_market.contract_notice', 'medusa_market.round',
        'medusa_market.contract_void', 'medusa_market.statement', 'medusa_market.audit',
        'medusa_market.cost_function', 'medusa_market.move_state'
    ]::regclass[] LOOP
        EXECUTE format('CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON %s '
            'FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only()', logged);
    END LOOP;
END $$;

CREATE TRIGGER guard BEFORE INSERT ON medusa_market.contract_revision
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_revision();
CREATE TRIGGER guard BEFORE UPDATE ON medusa_market.contract_proposal
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_proposal();
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa_market.contract_proposal
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa_market.contract_agreement
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER voids_alone BEFORE DELETE ON medusa_market.contract_agreement
    FOR EACH STATEMENT EXECUTE FUNCTION medusa_market.guard_voided();
CREATE TRIGGER voided BEFORE DELETE ON medusa_market.contract_agreement
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_voided();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa_market.contract_activation
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER voids_alone BEFORE DELETE ON medusa_market.contract_activation
    FOR EACH STATEMENT EXECUTE FUNCTION medusa_market.guard_voided();
CREATE TRIGGER voided BEFORE DELETE ON medusa_market.contract_activation
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_voided();
CREATE TRIGGER guard BEFORE INSERT ON medusa_market.audit
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_audit();
CREATE TRIGGER no_truncate BEFORE DELETE OR TRUNCATE ON medusa_market.audit_head
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE CONSTRAINT TRIGGER chain AFTER INSERT ON medusa_market.audit_entry
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION medusa_market.chain_audit();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa_market.load_sample
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_load();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa_market.load_sample
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa_market.load_part
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_load();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa_market.load_part
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard BEFORE INSERT ON medusa_market.cost_function
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_cost();
CREATE TRIGGER guard BEFORE UPDATE OF round_ms, move_ms, residence_ms, dead_band, partners_max
    ON medusa_market.market FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_trading();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa_market.offer
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_message();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa_market.offer
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER count_kept AFTER INSERT OR DELETE ON medusa_market.offer
    FOR EACH ROW EXECUTE FUNCTION medusa_market.count_kept();
CREATE TRIGGER guard BEFORE INSERT ON medusa_market.offer
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_offer();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa_market.offer_lapse
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_message();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa_market.offer_lapse
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa_market.answer
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_message();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa_market.answer
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER count_kept AFTER INSERT OR DELETE ON medusa_market.answer
    FOR EACH ROW EXECUTE FUNCTION medusa_market.count_kept();
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa_market.agreed_move
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON medusa_market.agreed_move
    FOR EACH ROW EXECUTE FUNCTION medusa_market.guard_move();
CREATE TRIGGER guard_state AFTER INSERT OR UPDATE ON medusa_market.move
    FOR EACH ROW EXECUTE FUNCTION medusa_market.note_move();
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa_market.move
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
