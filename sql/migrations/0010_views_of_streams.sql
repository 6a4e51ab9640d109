-- A named part of a stream can be kept for queries.
CREATE TABLE medusa.stream_view (
    name        text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    stream      text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    records     bigint CHECK (records > 0),
    duration_us bigint CHECK (duration_us > 0),
    from_us     bigint,
    to_us       bigint,
    made_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT view_has_one_extent CHECK (num_nonnulls(records, duration_us, from_us) = 1),
    CONSTRAINT view_ends_after_its_beginning CHECK (from_us < to_us),
    CONSTRAINT view_ends_only_if_it_begins CHECK (to_us IS NULL OR from_us IS NOT NULL)
);
COMMENT ON TABLE medusa.stream_view IS
    'Named parts of streams that are kept for queries: the last records, the last duration, or a '
    'range of event time. The hold of a view is of holder view:NAME.';
COMMENT ON COLUMN medusa.stream_view.records IS 'The last so many final records.';
COMMENT ON COLUMN medusa.stream_view.duration_us IS 'So much event time before the stable prefix ends.';
COMMENT ON COLUMN medusa.stream_view.to_us IS 'NULL: the range has no end.';
