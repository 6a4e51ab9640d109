-- Which guard watches which table: laws are kept even against plain SQL of the owner.

DO $$
DECLARE
    logged regclass;
BEGIN
    FOREACH logged IN ARRAY ARRAY[
        'medusa.stream', 'medusa.stream_order', 'medusa.plan', 'medusa.assignment', 'medusa.fragment_owner',
        'medusa.line_version', 'medusa.commit', 'medusa.step_metrics',
        'medusa.transition', 'medusa.lineage', 'medusa.landed_bucket',
        'medusa.quarantine', 'medusa.quarantine_retry', 'medusa.recall',
        'medusa.recall_follow', 'medusa.certificate', 'medusa.divergence',
        'medusa.divergence_settled', 'medusa.desired_job'
    ]::regclass[] LOOP
        EXECUTE format('CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE OR TRUNCATE ON %s '
            'FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only()', logged);
    END LOOP;
END $$;

CREATE TRIGGER guard BEFORE UPDATE ON medusa.home
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_home();
CREATE TRIGGER bring_order AFTER INSERT ON medusa.stream
    FOR EACH ROW EXECUTE FUNCTION medusa.bring_order();
CREATE TRIGGER guard BEFORE INSERT ON medusa.assignment
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_assignment();
CREATE TRIGGER no_delete BEFORE DELETE OR TRUNCATE ON medusa.stream_producer
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard BEFORE UPDATE ON medusa.stream_producer
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_line();
CREATE TRIGGER note_stable_prefix BEFORE INSERT ON medusa.line_version
    FOR EACH ROW EXECUTE FUNCTION medusa.note_stable_prefix();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.file
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.file
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_file();
CREATE TRIGGER guard BEFORE INSERT ON medusa.commit
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_commit();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON medusa.segment
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON medusa.segment
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_segment();
CREATE CONSTRAINT TRIGGER guard_compaction AFTER UPDATE OF file_ids ON medusa.segment
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.stability <> 'tentative' AND OLD.file_ids IS DISTINCT FROM NEW.file_ids)
    EXECUTE FUNCTION medusa.guard_compaction();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.segment
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_trimmed_segment();
CREATE TRIGGER guard_recalled AFTER INSERT ON medusa.lineage
    REFERENCING NEW TABLE AS fresh
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_lineage();
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa.landed_batch
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard BEFORE UPDATE ON medusa.landed_batch
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_landed_batch();
CREATE TRIGGER insert_only BEFORE UPDATE OR TRUNCATE ON medusa.late_record
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard_removal BEFORE DELETE ON medusa.late_record
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_late_record();
CREATE TRIGGER guard BEFORE INSERT OR UPDATE ON medusa.hold
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_hold();
CREATE TRIGGER guard BEFORE INSERT ON medusa.recall
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_recall();
CREATE CONSTRAINT TRIGGER guard_revision AFTER INSERT ON medusa.recall
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION medusa.guard_revision();
CREATE TRIGGER insert_only BEFORE DELETE OR TRUNCATE ON medusa.job
    FOR EACH STATEMENT EXECUTE FUNCTION medusa.guard_insert_only();
CREATE TRIGGER guard BEFORE UPDATE ON medusa.job
    FOR EACH ROW EXECUTE FUNCTION medusa.guard_job();
