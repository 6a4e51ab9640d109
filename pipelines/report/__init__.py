"""HTML pages and pictures of a home: results, answers, lineage."""
