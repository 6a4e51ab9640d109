"""Files of rows: schemas, digests, readers, compaction, orphans."""
