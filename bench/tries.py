"""The tries behind the fastest forms of bare Spark and Structured Streaming.

    python -m bench.tries bare|streaming [--records N] [--steps N] [--warm-up N] [--query three|one]

All tries of a kind share one session and take turns, so that they can be compared with each other;
their figures are higher than those of `python -m bench`, where a contender has its JVM to itself.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from bench import streaming as s
from bench.bare import SETS, Bare
from bench.contender import Contender
from bench.figures import p90
from bench.report import table
from bench.streaming import Streaming
from bench.workload import CLOSING_WINDOWS, Workload, window_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEMORY = Path("/dev/shm")
COUNT_DISTINCT = "count(DISTINCT resp_p)"
Tries = Mapping[str, Callable[[Path], Contender]]


def bare_tries(session: SparkSession, query: str) -> Tries:
    """Ways of writing one batch job per step."""

    def bare(way: str, settings: Mapping[str, str], **more: Any) -> Callable[[Path], Contender]:
        return lambda folder: Bare(session, folder, query, way, settings=settings, **more)

    by_sets, by_count = {"distinct": SETS}, {"distinct": COUNT_DISTINCT}
    tries = {
        "filter in Spark, split in Python; two groupings": bare("filter", {}),
        "the same in one partition": bare("filter", {}, partitions=1),
        "the same with sets": bare("filter", {}, **by_sets),
        "the same with count(distinct)": bare("filter", {}, **by_count),
        "the same with 1 shuffle partition": bare("filter", s.ONE_PARTITION),
        "the same with adaptive plans": bare("filter", s.ADAPTIVE),
        "the same without whole-stage code": bare("filter", s.NO_CODEGEN),
        "kept aggregate, Spark writes each output": bare("write", {}),
    }
    if query == "three":
        tries["kept aggregate, one tagged job"] = bare("tag", {})
        tries["one tagged job with count(distinct)"] = bare("tag", {}, **by_count)
    return tries


def streaming_tries(session: SparkSession, query: str, records: int, memory: Path) -> Tries:
    """Ways of writing and settings of the streaming query; each differs from the fastest in one."""
    fastest = s.fastest_settings(records)
    is_one = s.ONE_PARTITION.items() <= fastest.items()
    partitions = "2 partitions" if is_one else "1 partition"
    other = s.TWO_PARTITIONS if is_one else s.ONE_PARTITION

    def stream(
        settings: Mapping[str, str],
        *,
        distinct: str = "set",
        sink: str = "callback",
        checkpoint: Path | None = None,
    ) -> Callable[[Path], Contender]:
        return lambda folder: Streaming(
            session=session,
            folder=folder,
            query=query,
            settings={**fastest, **settings},
            distinct=distinct,
            sink=sink,
            checkpoint=checkpoint,
        )

    tries = {
        "fastest": stream({}),
        partitions: stream(other),
        "two chained aggregations": stream({}, distinct="chain"),
        "RocksDB state": stream(s.ROCKSDB_STATE),
        "RocksDB state, changelog checkpoints": stream({**s.ROCKSDB_STATE, **s.CHANGELOG}),
        "default checkpoint file manager": stream({**s.DEFAULT_RENAMES}),
        "checkpoint checksums": stream(s.CHECKSUMS),
        "the manager and checksums of a fresh Spark": stream({**s.DEFAULT_RENAMES, **s.CHECKSUMS}),
        "empty batches (windows close a batch earlier)": stream(s.EMPTY_BATCHES),
        "state checks": stream(s.CHECKS),
        "keeping 2 batches": stream(s.FEW_KEPT),
        "checkpoint on memory": stream({}, checkpoint=memory / "checkpoint"),
        "adaptive plans": stream(s.ADAPTIVE),
        "no whole-stage code": stream(s.NO_CODEGEN),
    }
    if query == "one":
        tries["file sink"] = stream({}, sink="file")
        tries["no sink (noop)"] = stream({}, sink="noop")
    else:
        tries["Spark writes the outputs"] = stream({}, sink="spark")
    return tries


def run(kind: str, workload: Workload, folder: Path, memory: Path) -> list[list[str]]:
    """Let all tries of a kind take turns; rows of a table."""
    from pipelines.spark.session import close_session, open_session

    files = []
    for window in range(workload.windows):
        files.append(folder / f"w{window:04}.parquet")
        pq.write_table(window_records(workload, window), files[-1], compression="zstd",
                       compression_level=1, row_group_size=65_536)  # fmt: skip
    session = open_session(folder / "spark")
    if kind == "bare":
        tries = bare_tries(session, workload.query)
    else:
        tries = streaming_tries(session, workload.query, workload.records, memory)
    contenders = {}
    for at, (name, made) in enumerate(tries.items()):
        contenders[name] = made(folder / f"try{at}")
    totals: dict[str, list[float]] = {name: [] for name in tries}
    try:
        for contender in contenders.values():
            contender.prepare(files)
        names = list(tries)
        for window in range(workload.windows - CLOSING_WINDOWS):
            first = window % len(names)
            for name in names[first:] + names[:first]:
                ms = contenders[name].step(window)
                if window >= workload.warm_up:
                    totals[name].append(ms["total"])
    finally:
        for contender in contenders.values():
            contender.close()
        close_session(session)
    rows = [["", "p50 ms", "p90 ms", "least ms"]]
    for name, took in sorted(totals.items(), key=lambda item: median(item[1])):
        rows.append([name, f"{median(took):.0f}", f"{p90(took):.0f}", f"{min(took):.0f}"])
    return rows


def main() -> None:
    """Parse, run, print."""
    parser = argparse.ArgumentParser(prog="bench.tries")
    parser.add_argument("kind", choices=("bare", "streaming"))
    parser.add_argument("--query", choices=("three", "one"), default="three")
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm-up", type=int, default=20)
    options = parser.parse_args()
    workload = Workload(query=options.query, records=options.records, steps=options.steps,
                        warm_up=options.warm_up)  # fmt: skip
    with (
        tempfile.TemporaryDirectory(prefix="bench-tries-") as folder,
        tempfile.TemporaryDirectory(prefix="bench-tries-", dir=MEMORY) as memory,
    ):
        for line in table(run(options.kind, workload, Path(folder), Path(memory))):
            print(line)


if __name__ == "__main__":
    main()
