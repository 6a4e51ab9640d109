-- What was checked, taken back, or is disputed between producers.

CREATE TABLE medusa.recall (
    recall_id   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    line_id     integer NOT NULL REFERENCES medusa.stream_producer,
    generation  integer NOT NULL CHECK (generation > 1),
    from_us     bigint NOT NULL,
    because     text NOT NULL,
    who         text NOT NULL,
    version     bigint NOT NULL CHECK (version > 0),
    recalled_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    made_in     xid8 NOT NULL DEFAULT pg_current_xact_id(),
    ranges      int8multirange,
    changed     int8multirange,
    UNIQUE (line_id, generation),
    CONSTRAINT recall_says_why CHECK (
        char_length(because) BETWEEN 1 AND 1000 AND char_length(who) BETWEEN 1 AND 200),
    CONSTRAINT recall_is_of_a_suffix_or_of_ranges CHECK (
        ranges IS NULL AND changed IS NULL
        OR (ranges <> '{}' AND ranges @> changed
            AND from_us = coalesce(lower(changed), 9223372036854775807)) IS TRUE)
);
COMMENT ON TABLE medusa.recall IS
    'Recalls and revisions: the generations of a line after the first, with the reason and the '
    'person; insert-only. Laws S1 and S2 hold within a generation.';
COMMENT ON COLUMN medusa.recall.from_us IS
    'The line begins again from this bucket on; of a revision the first bucket that differs, the '
    'greatest bigint if none does.';
COMMENT ON COLUMN medusa.recall.version IS
    'The version of the line in which rows were taken back; later ones are of this generation. A '
    'revision replaces them in this version.';
COMMENT ON COLUMN medusa.recall.made_in IS
    'The transaction in which the guards permit it.';
COMMENT ON COLUMN medusa.recall.ranges IS
    'Of a revision what it replaced, and nothing else (S13); NULL: a recall.';
COMMENT ON COLUMN medusa.recall.changed IS
    'Of a revision the buckets of the ranges that differ; NULL: a recall.';

CREATE TABLE medusa.recall_follow (
    follow_id  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    line_id    integer NOT NULL REFERENCES medusa.stream_producer,
    generation integer NOT NULL CHECK (generation > 1),
    from_us    bigint NOT NULL,
    because    text NOT NULL,
    who        text NOT NULL,
    agreed_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    stays      jsonb NOT NULL DEFAULT '{}',
    is_revision boolean NOT NULL DEFAULT false,
    CONSTRAINT recall_follow_says_why CHECK (
        char_length(because) BETWEEN 1 AND 1000 AND char_length(who) BETWEEN 1 AND 200)
);
COMMENT ON TABLE medusa.recall_follow IS
    'Partners'' recalls and revisions that the operator of this home agreed to follow; insert-only.';
COMMENT ON COLUMN medusa.recall_follow.generation IS
    'Of the partner''s line, after the recall; of revisions the last that is agreed to.';
COMMENT ON COLUMN medusa.recall_follow.from_us IS
    'The recall or the revisions may take back nothing before it.';
COMMENT ON COLUMN medusa.recall_follow.stays IS
    'Stream -> the bucket before which results computed from it here remain: its inputs are '
    'trimmed there.';
COMMENT ON COLUMN medusa.recall_follow.is_revision IS
    'Whether revisions are agreed to, and not a recall.';

CREATE TABLE medusa.certificate (
    certificate_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream         text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    participant    text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica        integer NOT NULL CHECK (replica >= -1),
    version        bigint NOT NULL,
    suite          text NOT NULL,
    law            text NOT NULL,
    from_us        bigint NOT NULL,
    to_us          bigint NOT NULL,
    passed         boolean NOT NULL,
    figures        jsonb NOT NULL,
    engines        jsonb NOT NULL,
    quarantined    bigint NOT NULL,
    certified_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT certificate_is_of_a_window CHECK (from_us < to_us),
    CONSTRAINT certificate_names_suite_and_law
        CHECK (suite ~ '^[a-z][a-z_]{0,62}$' AND law ~ '^[SLI][0-9]{1,2}$'),
    CONSTRAINT certificate_has_figures
        CHECK (jsonb_typeof(figures) = 'object' AND jsonb_typeof(engines) = 'object'),
    CONSTRAINT certificate_counts_records CHECK (quarantined >= 0)
);
COMMENT ON TABLE medusa.certificate IS
    'The result of a check of a closed window of a line, passed or not; insert-only.';
COMMENT ON COLUMN medusa.certificate.version IS
    'Of the line, when it was checked.';
COMMENT ON COLUMN medusa.certificate.suite IS 'Which check: converged, complete and so on.';
COMMENT ON COLUMN medusa.certificate.law IS 'The law that it is about, such as L2.';
COMMENT ON COLUMN medusa.certificate.figures IS
    'The counts, tentative and final separately.';
COMMENT ON COLUMN medusa.certificate.engines IS
    'Box -> the engine that recomputed it, and why.';
COMMENT ON COLUMN medusa.certificate.quarantined IS
    'Records of the stream and its sources in quarantine, of any time, which no result holds.';
CREATE INDEX certificate_of_stream ON medusa.certificate (stream, certificate_id);
COMMENT ON INDEX medusa.certificate_of_stream IS 'The newest certificates of a stream.';

CREATE TABLE medusa.divergence (
    divergence_id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream            text COLLATE "C" NOT NULL REFERENCES medusa.stream,
    bucket_us         bigint NOT NULL,
    plan              text COLLATE "C" NOT NULL REFERENCES medusa.plan,
    participant       text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    replica           integer NOT NULL CHECK (replica >= 0),
    version           bigint NOT NULL CHECK (version >= 0),
    rows              bigint NOT NULL CHECK (rows >= 0),
    sum_a             numeric(50,0) NOT NULL,
    sum_b             numeric(50,0) NOT NULL,
    other_participant text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    other_replica     integer NOT NULL CHECK (other_replica >= 0),
    other_version     bigint NOT NULL CHECK (other_version >= 0),
    other_rows        bigint NOT NULL CHECK (other_rows >= 0),
    other_sum_a       numeric(50,0) NOT NULL,
    other_sum_b       numeric(50,0) NOT NULL,
    noticed_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (stream, bucket_us, plan, participant, replica, version, other_participant,
        other_replica, other_version),
    CONSTRAINT divergence_is_of_two
        CHECK ((participant, replica) <> (other_participant, other_replica)),
    CONSTRAINT divergence_is_one
        CHECK ((rows, sum_a, sum_b) <> (other_rows, other_sum_a, other_sum_b))
);
COMMENT ON TABLE medusa.divergence IS
    'Two producers have different final rows in a bucket under one plan; insert-only. From that '
    'bucket on nothing of the stream becomes final here until it is settled.';
COMMENT ON COLUMN medusa.divergence.version IS 'Of the row that was compared; 0: there is none.';
COMMENT ON COLUMN medusa.divergence.rows IS 'With the two sums: the digest of the bucket.';

CREATE TABLE medusa.divergence_settled (
    divergence_id bigint PRIMARY KEY REFERENCES medusa.divergence,
    recall_id     bigint NOT NULL REFERENCES medusa.recall,
    settled_at    timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.divergence_settled IS
    'Which recall ended a divergence: one of the two took its rows back; insert-only.';
