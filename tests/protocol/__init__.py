"""The documents that participants exchange: what is read is what was written, or refused."""
