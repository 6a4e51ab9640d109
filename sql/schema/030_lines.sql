-- Lines: what one producer wrote of one stream, and the versions that it has had.

CREATE TABLE medusa.stream_producer (
    line_id      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream       text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    participant  text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica      integer NOT NULL CHECK (replica >= -1),
    last_version bigint NOT NULL DEFAULT 0,
    origin_us    bigint,
    boundary_us  bigint,
    promised_us  bigint,
    end_us       bigint,
    trimmed_us   bigint,
    compared_us  bigint,
    generation   integer NOT NULL DEFAULT 1 CHECK (generation > 0),
    UNIQUE (stream, participant, replica),
    CHECK ((origin_us IS NULL) = (boundary_us IS NULL)),
    CHECK (boundary_us >= origin_us),
    CONSTRAINT line_is_trimmed_within_its_life CHECK (
        trimmed_us IS NULL
        OR (origin_us IS NOT NULL AND trimmed_us BETWEEN origin_us AND boundary_us))
);
COMMENT ON TABLE medusa.stream_producer IS
    'A line: the versions of one stream by one producer. Its row is the lock of a commit.';
COMMENT ON COLUMN medusa.stream_producer.replica IS
    'Counted from 0; -1 is the import''s line: this home''s choice among the others.';
COMMENT ON COLUMN medusa.stream_producer.last_version IS
    'Taken by a commit under the row''s lock, held to its end: no smaller one appears later.';
COMMENT ON COLUMN medusa.stream_producer.origin_us IS
    'Where the line begins; NULL: it has not begun.';
COMMENT ON COLUMN medusa.stream_producer.boundary_us IS
    'How far live rows reach from the origin without a hole; the greatest bigint once ended.';
COMMENT ON COLUMN medusa.stream_producer.promised_us IS
    'A source''s promise: no later record before it.';
COMMENT ON COLUMN medusa.stream_producer.end_us IS 'Where the line ends, once that is known.';
COMMENT ON COLUMN medusa.stream_producer.generation IS
    'One more with each recall; see medusa.recall.';
COMMENT ON COLUMN medusa.stream_producer.trimmed_us IS
    'Everything of the line before it may be gone; NULL: nothing is.';
COMMENT ON COLUMN medusa.stream_producer.compared_us IS
    'Final rows before it have been compared with those of other producers; NULL: none has.';

CREATE TABLE medusa.line_version (
    line_id integer NOT NULL REFERENCES medusa.stream_producer,
    version bigint NOT NULL CHECK (version >= 0),
    chain   bytea NOT NULL CHECK (octet_length(chain) = 32),
    stable_us bigint,
    made_at   timestamptz,
    PRIMARY KEY (line_id, version)
);
COMMENT ON TABLE medusa.line_version IS
    'The history of a line at a version. A home that was restored from an old state, and '
    'committed more from there, has another chain at the same version; trimming and compacting '
    'change none.';
COMMENT ON COLUMN medusa.line_version.chain IS
    'SHA-256 of the chain before and of the commit''s content; of a partner''s line as the '
    'partner sent it.';
COMMENT ON COLUMN medusa.line_version.stable_us IS
    'Where the stable prefix ended at that version; NULL: not known.';
COMMENT ON COLUMN medusa.line_version.made_at IS
    'When this home reached it, by its own clock; NULL: not known.';
CREATE INDEX line_version_made ON medusa.line_version (line_id, made_at);
COMMENT ON INDEX medusa.line_version_made IS 'Which version a line had at a time.';
