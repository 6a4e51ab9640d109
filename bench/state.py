"""`python -m bench state`: what a step costs late in a span, against one at its beginning.

A Running over one span counts 1,000 keys. The history is one segment, computed in one
step, as a backlog is; then buckets of one record for each key are timed, side by side
with those of an engine whose span has just begun. CPU is that of the process and all below it, the
JVM included; to name segments in lineage is not a part of it.

`--box session` measures a Session whose keys all stay open, and `--box deduplicate` a Deduplicate.

`--keys` measures many keys instead: each arrives in a step of a million records, then the CPU of
steps over 1,000 of them, the size of the carried rows, and the peak memory of the driver's Python,
its JVM and its workers together. What processes share is counted once. `MEDUSA_DRIVER_MEMORY` is
the heap.
"""

from __future__ import annotations

import argparse
import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.answering import WIDTH_US, Answering
from bench.panes import Costs
from bench.process_tree import Sample, memory_of
from bench.sliding import scratch
from medusa_core.commits import Cause
from medusa_core.grid import Range
from medusa_core.network import Deduplicate, Network, Output, Running, Session, Source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = {"at_us": "bigint", "key": "string", "port": "int"}
KEYS = 1_000
HISTORY_RECORDS_MAX = 2_000_000
"""How many records a history has at most; a short one has 20 in each bucket."""

RATIO_MAX = 1.2
CHUNK = 1_000_000
MIB = 1 << 20
SAMPLED_EVERY_S = 0.2


VALUES = {"n": "count(*)", "total": "sum(port)", "most": "max(port)"}
BOXES: Mapping[str, Running | Deduplicate | Session] = {
    "running": Running(name="box", input="given", by=("key",), within="366d", columns=VALUES),
    "deduplicate": Deduplicate(name="box", input="given", by=("key",), within="366d"),
    "session": Session(
        name="box", input="given", by=("key",), gap="183d", length_max="366d", columns=VALUES
    ),
}
"""Boxes over a span that is longer than what is measured."""


def a_network(box: Running | Deduplicate | Session) -> Network:
    """One box over a source."""
    return Network(
        name="state",
        sources=(Source(name="given", columns=COLUMNS, time="at_us"),),
        boxes=(box,),
        outputs=(Output(name="out", input="box"),),
    )


def records(numbers: np.ndarray, at_us: np.ndarray) -> pa.Table:
    """Records of these keys, by number, at these times."""
    return pa.table(
        {
            "at_us": pa.array(at_us),
            "key": pa.array(np.char.add("key-", numbers.astype("U8"))),
            "port": pa.array((numbers * 7 % 65_536).astype(np.int32)),
        }
    )


class Span:
    """An engine in the middle of a span; buckets come one after the other."""

    def __init__(self, session: SparkSession, root: Path, box: str) -> None:
        self.box = BOXES[box]
        self.world = Answering(session, root, a_network(self.box))
        self.at, self.costs = 0, Costs()

    def takes(self, table: pa.Table, buckets: int, *, is_timed: bool = False) -> None:
        """The next `buckets` buckets, in one segment and one step."""
        part = Range(self.at * WIDTH_US, (self.at + buckets) * WIDTH_US)
        self.world.comes("given", table, part)
        step = self.world.step(part, Cause.NORMAL)
        costs = self.costs if is_timed else Costs()
        made = costs.of(lambda: self.world.engine.compute(step))
        if isinstance(self.box, Running):
            assert made.metrics.records_out == table.num_rows, "each record gives a row"
        self.at += buckets

    def takes_all_keys(self, *, is_timed: bool = False) -> None:
        """A bucket with one record of each key."""
        at_us = self.at * WIDTH_US + np.arange(KEYS)
        self.takes(records(np.arange(KEYS), at_us), 1, is_timed=is_timed)

    def takes_history(self, buckets: int) -> None:
        """So many buckets of a few records each."""
        each = max(1, min(20, HISTORY_RECORDS_MAX // buckets))
        numbers = np.random.default_rng(1).integers(0, KEYS, each * buckets)
        at_us = (self.at + np.repeat(np.arange(buckets), each)) * WIDTH_US
        self.takes(records(numbers, at_us + np.tile(np.arange(each), buckets)), buckets)


def measure_history(
    folder: Path, session: SparkSession, box: str, buckets: int, steps: int
) -> None:  # fmt: skip
    """Steps after a history of `buckets` buckets, and steps at the beginning of a span."""
    early, late = (Span(session, folder / f"{name}-{buckets}", box) for name in ("early", "late"))
    for span in (early, late):
        span.takes_all_keys()
    late.takes_history(buckets)
    for at in range(steps + 5):
        for span in (early, late)[:: 1 if at % 2 else -1]:
            span.takes_all_keys(is_timed=at >= 5)
    cpu = late.costs.mean_cpu_ms / early.costs.mean_cpu_ms
    wall = median(late.costs.wall_ms) / median(early.costs.wall_ms)
    met = "met" if cpu <= RATIO_MAX else "MISSED"
    print(
        f"{buckets:>9,} buckets before: {late.costs.mean_cpu_ms:6.0f} ms CPU a step, "
        f"{early.costs.mean_cpu_ms:6.0f} at the beginning, ratio {cpu:.2f} "
        f"(wall {wall:.2f}), wanted <= {RATIO_MAX}: {met}; it reads {late.costs.records[-1]:,}",
        flush=True,
    )  # fmt: skip


def measure_keys(folder: Path, session: SparkSession, box: str, keys: int, steps: int) -> None:
    """Steps over 1,000 keys, after each of `keys` keys has occurred once."""
    span = Span(session, folder / f"keys-{keys}", box)
    with PeakMemory() as memory:
        for first in range(0, keys, CHUNK):
            numbers = np.arange(first, min(first + CHUNK, keys))
            span.takes(records(numbers, span.at * WIDTH_US + np.arange(len(numbers))), 1)
            print(f"{first + len(numbers):>11,} keys so far: {memory}", flush=True)
        random = np.random.default_rng(2)
        for at in range(steps + 2):
            numbers = np.sort(random.integers(0, keys, KEYS))
            table = records(numbers, span.at * WIDTH_US + np.arange(KEYS))
            span.takes(table, 1, is_timed=at >= 2)
    carried = Path(session.conf.get("spark.medusa.scratch") or "").glob("carried-*.parquet")
    size = sum(path.stat().st_size for path in carried) / MIB
    print(
        f"{keys:>9,} keys: {span.costs.mean_cpu_ms:6.0f} ms CPU a step of {KEYS:,} records, wall "
        f"{median(span.costs.wall_ms):.0f} ms, reads {span.costs.records[-1]:,} records; carried "
        f"{size:.0f} MiB; most memory {memory}",
        flush=True,
    )


class PeakMemory:
    """The most memory that this process and all below it have had together, by samples."""

    def __init__(self) -> None:
        self.most: Sample = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLED_EVERY_S):
            sample = memory_of(os.getpid())
            if sum(sample.values()) > sum(self.most.values()):
                self.most = sample

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {mib:.0f}" for name, mib in self.most.items())
        return f"{sum(self.most.values()):.0f} MiB ({parts})"


def main(arguments: Sequence[str]) -> int:
    """Measure and print; 0 also where the promise is missed, as for the other comparisons."""
    from pipelines.spark.session import close_session, open_session

    parser = argparse.ArgumentParser(prog="bench state", description=__doc__)
    parser.add_argument("--steps", type=int, default=30, help="timed steps of each engine")
    parser.add_argument("--buckets", type=int, nargs="*", default=[1_000, 100_000, 1_000_000])
    parser.add_argument("--box", choices=list(BOXES), default="running")
    parser.add_argument("--keys", type=int, nargs="*", default=[])
    options = parser.parse_args(arguments)
    with scratch() as folder:
        session = open_session(folder / "spark")
        try:
            for buckets in () if options.keys else options.buckets:
                measure_history(folder, session, options.box, buckets, options.steps)
            for keys in options.keys:
                measure_keys(folder, session, options.box, keys, options.steps)
        finally:
            close_session(session)
    return 0
