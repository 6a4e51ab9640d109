CREATE OR REPLACE FUNCTION medusa_market.note_billed(
    contract text, revision text, period bigint, from_ms bigint, to_us bigint, cut_us bigint
) RETURNS jsonb
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s'
AS $$
DECLARE
    terms  medusa_market.contract_revision;
    at     medusa_market.billing_position;
    one    record;
    stable bigint;
    least_stable bigint;
BEGIN
    SELECT r.* INTO terms FROM medusa_market.contract_agreement AS a
    JOIN medusa_market.contract_revision AS r ON r.revision = a.revision
    WHERE (a.contract, a.revision) = (note_billed.contract, note_billed.revision);
    IF (terms.kind IN ('content', 'movement')
        AND medusa_market.here() IN (terms.payer, terms.provider) AND note_billed.cut_us > 0)
        IS NOT TRUE
    THEN
        RAISE EXCEPTION 'contract % bills nothing here', note_billed.contract
            USING ERRCODE = 'MD001';
    END IF;
    INSERT INTO medusa_market.billing_position (contract, from_ms)
    VALUES (note_billed.contract, note_billed.from_ms) ON CONFLICT DO NOTHING;
    SELECT b.* INTO at FROM medusa_market.billing_position AS b
    WHERE b.contract = note_billed.contract FOR UPDATE;
    IF (at.period, at.from_ms) <> (note_billed.period, note_billed.from_ms) THEN
        RAISE EXCEPTION 'period % of contract % is the next one to be stated: read again',
            at.period, at.contract USING ERRCODE = 'MD002';
    END IF;
    IF terms.kind = 'content' THEN
        least_stable := medusa_market.count_line(at, '',
            medusa_market.billable_line(terms.stream, terms.provider, (
                SELECT l.line_id FROM medusa_market.billed_line AS l
                WHERE (l.contract, l.subject) = (at.contract, '')), note_billed.to_us),
            at.from_ms * 1000, note_billed.to_us, note_billed.cut_us);
    ELSE
        least_stable := CASE WHEN medusa_market.awaits_release(at.contract) THEN -1
            ELSE 9223372036854775807 END;
        FOR one IN SELECT * FROM medusa_market.lines_of_moves(terms) LOOP
            stable := medusa_market.count_line(at, one.subject, one.line_id,
                greatest(one.from_us, at.from_ms * 1000), least(one.to_us, note_billed.to_us), 1);
            -- A payer takes nothing back that it has acknowledged.
            stable := CASE WHEN one.safe_us < stable THEN one.safe_us ELSE stable END;
            PERFORM medusa_market.join_billed(at, one.subject, note_billed.cut_us);
            least_stable := least(least_stable, CASE
                WHEN one.to_us <= stable OR one.from_us >= note_billed.to_us THEN least_stable
                ELSE coalesce(stable, -1) END);
        END LOOP;
    END IF;
    RETURN (SELECT jsonb_build_object('stable_us', least_stable, 'counts', b.counts)
        FROM medusa_market.billing_position AS b
        WHERE b.contract = at.contract AND least_stable IS NOT NULL);
END $$;
COMMENT ON FUNCTION medusa_market.note_billed(text, text, bigint, bigint, bigint, bigint) IS
    'For jobs: count the final rows that a contract bills in the period that is stated next, and '
    'what was revised of a sold stream''s earlier ones; up to where all of them are final, NULL if '
    'a sold stream has no line yet.';
