CREATE OR REPLACE FUNCTION medusa.supersede(old_id bigint, by_version bigint, by jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    old   medusa.segment;
    cut   record;
    at_us bigint;
    first integer;
    past  integer;
BEGIN
    UPDATE medusa.segment SET end_version = by_version
        WHERE segment_id = old_id RETURNING * INTO old;
    -- What lies between the superseding ranges stays as it was: version, lineage, digests, files.
    at_us := old.from_us;
    FOR cut IN
        SELECT r.from_us, r.to_us FROM jsonb_to_recordset(by) AS r (from_us bigint, to_us bigint)
        WHERE r.from_us < old.to_us AND r.to_us > old.from_us
        UNION ALL SELECT old.to_us, old.to_us
        ORDER BY 1
    LOOP
        IF cut.from_us > at_us THEN
            SELECT count(*) FILTER (WHERE b < at_us) + 1, count(*) FILTER (WHERE b < cut.from_us)
            INTO first, past FROM unnest(old.bucket_us) AS b;
            INSERT INTO medusa.segment (line_id, from_us, to_us, stability, generation, version,
                begin_version, plan, commit_id, age_ms, missing, bucket_us, bucket_rows, sum_a,
                sum_b, file_ids)
            VALUES (old.line_id, at_us, cut.from_us, old.stability, old.generation, old.version,
                by_version, old.plan, old.commit_id, old.age_ms, old.missing,
                old.bucket_us[first:past], old.bucket_rows[first:past], old.sum_a[first:past],
                old.sum_b[first:past], CASE WHEN first <= past THEN old.file_ids ELSE '{}' END);
        END IF;
        at_us := greatest(at_us, cut.to_us);
    END LOOP;
END $$;
COMMENT ON FUNCTION medusa.supersede(bigint, bigint, jsonb) IS
    'End a tentative row at a version; the parts that no range covers live on as rows.';
