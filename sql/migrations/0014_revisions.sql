-- A line can begin another generation for named ranges alone: a revision.
ALTER TABLE medusa.recall
    ADD COLUMN ranges int8multirange,
    ADD COLUMN changed int8multirange,
    ADD CONSTRAINT recall_is_of_a_suffix_or_of_ranges CHECK (
        ranges IS NULL AND changed IS NULL
        OR (ranges <> '{}' AND ranges @> changed
            AND from_us = coalesce(lower(changed), 9223372036854775807)) IS TRUE);
COMMENT ON TABLE medusa.recall IS
    'Recalls and revisions: the generations of a line after the first, with the reason and the '
    'person; insert-only. Laws S1 and S2 hold within a generation.';
COMMENT ON COLUMN medusa.recall.from_us IS
    'The line begins again from this bucket on; of a revision the first bucket that differs, the '
    'greatest bigint if none does.';
COMMENT ON COLUMN medusa.recall.version IS
    'The version of the line in which rows were taken back; later ones are of this generation. A '
    'revision replaces them in this version.';
COMMENT ON COLUMN medusa.recall.ranges IS
    'Of a revision what it replaced, and nothing else (S13); NULL: a recall.';
COMMENT ON COLUMN medusa.recall.changed IS
    'Of a revision the buckets of the ranges that differ; NULL: a recall.';
