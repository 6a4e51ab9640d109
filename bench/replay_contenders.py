"""The process of one contender of a replay, other than Medusa.

    python -m bench.replay_contenders NAME FOLDER FILE...

It computes the three outputs of netmon over recorded files, into a folder each, and ends.

* `bare`: one batch job over all files, which keeps and promises nothing;
* `streaming`: one stateful query over the files, whose windows the watermark closes;
* `duckdb`: a loop over the files (`bench/replay_duckdb.py`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.replay_duckdb import FILE_COLUMNS, replay_in_duckdb
from bench.workload import THREE
from pipelines.sources.generator import DISORDER_US

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_SCHEMA = ", ".join(
    f"{name} {'STRING' if type_ == 'VARCHAR' else type_}" for name, type_ in FILE_COLUMNS.items()
)
BARE_PARTITIONS = 8
"""Shuffle partitions of the one large job: 2 of them, one a core, spill from 20 million on."""

FILES_PER_BATCH = 1
"""Files of a micro-batch: 1 takes the least CPU of 1, 4 and 16 (bench/README.md)."""

CLOSING_US = 4_000_000_000_000_000
"""An event time behind every recorded one."""


def bare(files: Sequence[Path], folder: Path) -> None:
    """One batch job; the rows that matter are fetched as Arrow and split, as in `bench/bare.py`."""
    from bench.bare import NOISY, TWO_GROUPINGS
    from bench.contender import three_outputs, write_rows

    with _session(folder) as session:
        session.conf.set("spark.sql.shuffle.partitions", str(BARE_PARTITIONS))
        reader = session.read.schema(FILE_SCHEMA)
        if _is_text(files):
            reader = reader.option("header", "true")
        records = reader.format("csv" if _is_text(files) else "parquet").load([*map(str, files)])
        per_source = session.sql(TWO_GROUPINGS, records=records)
        for name, table in three_outputs(per_source.where(NOISY).toArrow()).items():
            (folder / name).mkdir()
            write_rows(folder / name, "all.parquet", table)


def streaming(files: Sequence[Path], folder: Path) -> None:
    """One query of Structured Streaming, as in `bench/streaming.py`, over all files at once.

    A file with one much later record closes the last windows; that record is in no output.
    """
    from bench.streaming import EMPTY_BATCHES, FASTEST_LARGE, Streaming
    from pipelines.sources.generated_files import write_generated

    is_text = _is_text(files)
    (closing,) = write_generated(
        folder / "closing",
        seed=1,
        records=1,
        start_us=CLOSING_US,
        format="csv" if is_text else "parquet",
    )
    with _session(folder) as session:
        query = Streaming(
            session=session,
            folder=folder,
            query=THREE.name,
            settings={**FASTEST_LARGE, **EMPTY_BATCHES},
            disorder=f"{DISORDER_US} microseconds",
            format="csv" if is_text else "parquet",
            schema=FILE_SCHEMA,
            files_per_batch=FILES_PER_BATCH,
        )
        query.replay([*files, closing])


def duck(files: Sequence[Path], folder: Path) -> None:
    """A loop over the files."""
    replay_in_duckdb(files, folder, DISORDER_US)


OTHERS: Mapping[str, Callable[[Sequence[Path], Path], None]] = {
    "bare": bare,
    "streaming": streaming,
    "duckdb": duck,
}
"""Every contender but Medusa, by name."""


def _is_text(files: Sequence[Path]) -> bool:
    return files[0].suffix != ".parquet"


@contextmanager
def _session(folder: Path) -> Iterator[SparkSession]:
    from pipelines.spark.session import close_session, open_session

    session = open_session(folder / "spark")
    try:
        yield session
    finally:
        close_session(session)


def main() -> None:
    """Run one contender to its end."""
    name, folder, *files = sys.argv[1:]
    OTHERS[name]([Path(file) for file in files], Path(folder))


if __name__ == "__main__":
    main()
