"""Partners' lines: news, import of rows, choice among producers."""
