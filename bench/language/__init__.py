"""`python -m bench language`: boxes with state, against bare Spark and Structured Streaming.

Each case has windows of 10 s with 250,000 records of each stream. Each contender has a process and
a JVM of its own, and they compute each window in turn: Medusa as a step of its engine (without a
catalog), bare Spark as a batch job over the files that the rows need, Structured Streaming as a
micro-batch, where it can express the case. All read the files of Medusa's segments and write their
rows as Parquet; only Medusa syncs them and takes digests. Where rows depend on all earlier records,
bare Spark stores what the next window needs in files. At the end DuckDB compares the rows.

Exit code 0 also where a promise is missed, 1 where rows differ.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Parse, measure, print."""
    from bench.language.command import main as run

    return run(arguments)
