-- A home can follow the revisions of a partner's line, and forgets late records that are trimmed.
ALTER TABLE medusa.stream_promise
    ADD COLUMN follows_revisions boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN medusa.stream_promise.follows_revisions IS
    'Whether revisions of a partner''s line are followed here without asking the operator.';

ALTER TABLE medusa.recall_follow
    ADD COLUMN is_revision boolean NOT NULL DEFAULT false;
COMMENT ON TABLE medusa.recall_follow IS
    'Partners'' recalls and revisions that the operator of this home agreed to follow; insert-only.';
COMMENT ON COLUMN medusa.recall_follow.generation IS
    'Of the partner''s line, after the recall; of revisions the last that is agreed to.';
COMMENT ON COLUMN medusa.recall_follow.from_us IS
    'The recall or the revisions may take back nothing before it.';
COMMENT ON COLUMN medusa.recall_follow.is_revision IS
    'Whether revisions are agreed to, and not a recall.';

COMMENT ON TABLE medusa.late_record IS
    'Late records that wait for a revision which admits them: a row goes once its record has landed '
    'or was admitted, or its bucket is trimmed.';
