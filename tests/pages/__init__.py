"""The operator's page: its documents, their rendering, and how it is kept current."""
