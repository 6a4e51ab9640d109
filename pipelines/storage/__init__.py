"""Files of rows: how they are written, read, checked, compacted and removed."""
