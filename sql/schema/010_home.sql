-- The home itself: what it is made of, and whose it is.

CREATE TABLE medusa.schema_migration (
    name       text COLLATE "C" PRIMARY KEY,
    sha256     text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.schema_migration IS
    'The numbered migrations whose changes the tables of this home have.';
COMMENT ON COLUMN medusa.schema_migration.sha256 IS 'Hash of the file as it was applied.';

CREATE TABLE medusa.schema_file (
    path       text COLLATE "C" PRIMARY KEY,
    sha256     text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.schema_file IS
    'The files of functions, triggers, views and grants that this home has; one whose hash differs '
    'is applied again.';

CREATE TABLE medusa.schema_version (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    digest     text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.schema_version IS
    'The versions of all SQL files together that this home has had, the newest last. A program whose '
    'version is an earlier one of them is older than the home.';

CREATE TABLE medusa.participant (
    name     text COLLATE "C" PRIMARY KEY CHECK (name ~ '^[a-z][a-z0-9_]{0,62}$'),
    known_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.participant IS 'Participants that this home knows of, itself included.';

CREATE TABLE medusa.home (
    is_only     boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    participant text COLLATE "C" NOT NULL REFERENCES medusa.participant,
    incarnation uuid NOT NULL DEFAULT gen_random_uuid(),
    founded_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE medusa.home IS 'Whose home this is: one row. Deploying locks it.';
COMMENT ON COLUMN medusa.home.incarnation IS
    'Carried by cursors; set another after a backup was restored, so that they notice. Partners '
    'notice by the chains of lines, which begin with it.';
