-- What of a line is final, tentative and lost is known of any range without a look at its stable rows.
CREATE INDEX segment_live_gap ON medusa.segment (line_id, to_us)
    WHERE end_version IS NULL AND stability = 'gap';
COMMENT ON INDEX medusa.segment_live_gap IS
    'Declared losses: what is final of a range without counting its rows.';
