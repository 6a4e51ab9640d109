CREATE OR REPLACE FUNCTION medusa_market.note_samples(move_id bigint, stream text, through_us bigint,
    samples jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
BEGIN
    -- Two programs may recompute the same: the first one counts.
    INSERT INTO medusa_market.sample (move_id, stream, from_us, to_us, outcome, stated, recomputed,
        reason, version)
    SELECT note_samples.move_id, note_samples.stream, s.from_us, s.to_us, s.outcome, s.stated,
        s.recomputed, s.reason, s.version
    FROM jsonb_to_recordset(note_samples.samples) AS s (from_us bigint, to_us bigint, outcome text,
        stated text, recomputed text, reason text, version bigint)
    ON CONFLICT DO NOTHING;
    IF note_samples.through_us IS NOT NULL THEN
        INSERT INTO medusa_market.sample_position AS p (move_id, stream, through_us)
        VALUES (note_samples.move_id, note_samples.stream, note_samples.through_us)
        ON CONFLICT ON CONSTRAINT sample_position_pkey DO UPDATE
        SET through_us = greatest(p.through_us, excluded.through_us);
    END IF;
END $$;
COMMENT ON FUNCTION medusa_market.note_samples(bigint, text, bigint, jsonb) IS
    'For jobs: what was found of buckets of a stream of a move, and up to which bucket all that '
    'were drawn are recomputed (NULL: no further than before).';
