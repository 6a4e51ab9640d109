-- A hold knows which versions its reader has acknowledged: a recall behind them is kept for it.
ALTER TABLE medusa.hold
    ADD COLUMN versions jsonb NOT NULL DEFAULT '{}';
COMMENT ON COLUMN medusa.hold.versions IS
    'Up to which version the reader has acknowledged the line of each replica of this home; what a '
    'later recall or revision takes back is held, wherever the hold begins.';
