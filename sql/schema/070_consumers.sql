-- Who reads streams, and so keeps what is not read yet: holds, sinks and cursors.

CREATE TABLE medusa.hold (
    stream    text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    holder    text COLLATE "C" NOT NULL,
    purpose   text COLLATE "C" NOT NULL,
    from_us   bigint NOT NULL,
    limit_ms  bigint CHECK (limit_ms > 0),
    placed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    path_ms   bigint NOT NULL DEFAULT 0,
    versions  jsonb NOT NULL DEFAULT '{}',
    PRIMARY KEY (stream, holder, purpose),
    CONSTRAINT path_is_not_below_zero CHECK (path_ms >= 0)
);
COMMENT ON TABLE medusa.hold IS
    'Holds that keep buckets of a stream, from one bucket on.';
COMMENT ON COLUMN medusa.hold.limit_ms IS 'For how long; past it the owner may trim.';
COMMENT ON COLUMN medusa.hold.path_ms IS
    'The cost of the rest of the path at the reader, as it reports it: the time that an answer '
    'here must leave.';
COMMENT ON COLUMN medusa.hold.versions IS
    'Up to which version the reader has acknowledged the line of each replica of this home; what a '
    'later recall or revision takes back is held, wherever the hold begins.';

CREATE TABLE medusa.sink (
    stream       text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    name         text COLLATE "C" NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    document     text NOT NULL,
    from_us      bigint NOT NULL,
    through_us   bigint,
    version      bigint,
    rows         bigint NOT NULL DEFAULT 0,
    lost_us      bigint NOT NULL DEFAULT 0,
    problem      text,
    declared_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    delivered_at timestamptz,
    PRIMARY KEY (stream, name),
    CONSTRAINT sink_delivers_from_its_beginning CHECK (through_us >= from_us)
);
COMMENT ON TABLE medusa.sink IS
    'Targets of streams, and a copy of the position recorded in each.';
COMMENT ON COLUMN medusa.sink.document IS 'JSON, as in contracts/streams; passwords are not in it.';
COMMENT ON COLUMN medusa.sink.from_us IS 'Where it begins; the least bigint: at the origin.';
COMMENT ON COLUMN medusa.sink.through_us IS
    'All before it is in the target; NULL: not known. Its hold begins here.';
COMMENT ON COLUMN medusa.sink.version IS 'The version of the line up to which it was read.';
COMMENT ON COLUMN medusa.sink.lost_us IS 'How much event time was passed over as declared gaps.';
COMMENT ON COLUMN medusa.sink.problem IS
    'Why it is blocked; NULL: it is not.';

CREATE TABLE medusa.cursor (
    stream      text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    name        text COLLATE "C" NOT NULL CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    line_id     integer NOT NULL REFERENCES medusa.stream_producer,
    incarnation uuid NOT NULL,
    version     bigint NOT NULL DEFAULT 0 CHECK (version >= 0),
    chain       bytea CHECK (octet_length(chain) = 32),
    from_us     bigint NOT NULL,
    placed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    moved_at    timestamptz,
    PRIMARY KEY (stream, name)
);
COMMENT ON TABLE medusa.cursor IS
    'How far consumers have applied the changes of streams; a cursor moves only on request.';
COMMENT ON COLUMN medusa.cursor.incarnation IS
    'The home''s when the cursor was placed: after a restore it is another one.';
COMMENT ON COLUMN medusa.cursor.version IS 'Its consumer has applied the changes up to there.';
COMMENT ON COLUMN medusa.cursor.chain IS
    'The chain of the line at that version, where one is kept: another one is another past.';
COMMENT ON COLUMN medusa.cursor.from_us IS
    'Changes of buckets from here on are reported; the least bigint: all.';

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
