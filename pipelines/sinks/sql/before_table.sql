-- Rows of this schema's tables that tentative rows have displaced, to be put back.
CREATE TABLE IF NOT EXISTS {before} (target text COLLATE "C" NOT NULL, row_text text NOT NULL);
