-- A failure of a box names every output that lacks the record; until now only the first was named.
ALTER TABLE medusa.quarantine ADD COLUMN outputs text[] COLLATE "C" NOT NULL DEFAULT '{}';
COMMENT ON COLUMN medusa.quarantine.outputs IS
    'All outputs that lack a record on which a box failed; none: no box failed on it, or it is older '
    'than this column.';
