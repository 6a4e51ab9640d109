CREATE OR REPLACE FUNCTION medusa_market.count_line(
    at medusa_market.billing_position, subject text, line integer, from_us bigint, to_us bigint,
    cut_us bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    before  medusa_market.billed_line;
    changes jsonb;
BEGIN
    IF line IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT l.* INTO before FROM medusa_market.billed_line AS l
    WHERE (l.contract, l.subject) = (at.contract, count_line.subject);
    IF before.line_id <> line THEN
        PERFORM medusa_market.apply_billed(at, before, medusa_market.billed_changes(at, before,
            before.noted_us, count_line.cut_us));
    END IF;
    before := (at.contract, count_line.subject, line,
        coalesce(before.noted_us, count_line.from_us),
        CASE WHEN before.line_id = line THEN before.noted_version END);
    changes := medusa_market.billed_changes(at, before, count_line.to_us, count_line.cut_us);
    IF changes IS NULL THEN
        RETURN NULL;
    END IF;
    PERFORM medusa_market.apply_billed(at, before, changes);
    RETURN (changes->>'stable_us')::bigint;
END $$;
COMMENT ON FUNCTION medusa_market.count_line(medusa_market.billing_position, text, integer, bigint,
    bigint, bigint) IS
    'Count what has become final of a line from a bucket on, in the period that is stated next; '
    'up to where the line is final, NULL if it has not begun.';
