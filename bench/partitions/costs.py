"""CPU per record of the steps of one network without partitions and with them.

Real files and real steps in one Spark session, without a catalog (`bench/answering.py`). CPU is
that of the whole process tree.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.answering import ALPHA, PLAN, WIDTH_US, Answering
from bench.process_tree import cpu_seconds
from medusa_core.commits import Cause
from medusa_core.grid import Range
from medusa_core.names import Version
from medusa_core.network import Aggregate, Network, Output, Partitions, Source
from medusa_core.segments import Segment, Stability
from pipelines.language.check import check_network, fragments_for
from pipelines.language.checked_partitions import with_checked_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

USERS, WARM_UP, COUNTED = 2_000, 2, 4
CASES = ((0, False), (2, False), (4, False), (8, False), (4, True))
BUYS = Source(
    name="buys", columns={"at_us": "bigint", "user": "string", "eur": "bigint"}, time="at_us"
)
SUMS = Aggregate(
    name="sums", input="buys", size="10s", group_by=("user",),
    columns={"eur": "sum(eur)", "buys": "count(*)", "most": "max(eur)"},
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCosts:
    """What a record costs with a number of partitions (0: none), in microseconds of CPU: in all
    partitions together, and in what one worker does for all (the union, and `cut`); `rows` are the
    rows that came out."""

    n: int
    cut: bool
    shared_us: float
    fixed_us: float
    rows: int

    def throughput(self, workers: int) -> float:
        """Records per second of workers with a core each, one of them for what is not shared."""
        return 1e6 / max(self.shared_us / min(workers, max(self.n, 1)), self.fixed_us, 1e-9)


class _Steps(Answering):
    """The steps of every fragment of a network, in order."""

    def __post_init__(self) -> None:
        self.checked = check_network(self.network)
        self.fragments = fragments_for(self.checked)
        self.fragment = self.fragments[0]
        self.engine = self.new_engine()
        self._versions = iter(range(1, 1 << 30))

    def all(self, part: Range) -> tuple[dict[str, float], int]:
        """CPU seconds of each fragment's step over a range, and the rows of the last one."""
        spent, rows = {}, 0
        for fragment in self.fragments:
            self.fragment = fragment
            before_s = cpu_seconds([os.getpid()])
            result = self.engine.compute(self.step(part, Cause.NORMAL))
            spent[fragment.name] = cpu_seconds([os.getpid()]) - before_s
            rows = 0
            for one in result.written:
                rows += sum(digest.rows for digest in one.buckets.values())
                segment = Segment(
                    stream=one.stream, producer=ALPHA, range=part, stability=Stability.STABLE,
                    version=Version(next(self._versions)), plan=PLAN, buckets=dict(one.buckets),
                    files=one.files,
                )  # fmt: skip
                self.came[one.stream] = (*self.came.get(one.stream, ()), segment)
        self.fragment = self.fragments[0]
        return spent, rows


def network_of(n: int, cut: bool) -> Network:
    """The network with `n` partitions; 0: without."""
    partitions = {"main": Partitions(by=("user",), n=n, cut=cut)} if n else {}
    return with_checked_partitions(
        Network(
            name="shop", sources=(BUYS,), boxes=(SUMS,),
            outputs=(Output(name="spent", input="sums"),), partitions=partitions,
        )
    )  # fmt: skip


def measure_costs(
    folder: Path, records: int, progress: Callable[[str], None]
) -> list[PartitionCosts]:
    """Each case over the same buckets, each of the given number of records."""
    work = folder / "bench-partitions"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        with _session(work) as spark:
            return [_measured(spark, work, n, cut, records, progress) for n, cut in CASES]
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _session(work: Path) -> Iterator[SparkSession]:
    from pipelines.spark.session import close_session, open_session

    spark = open_session(work / "driver")
    try:
        yield spark
    finally:
        close_session(spark)


def _measured(
    spark: SparkSession,
    work: Path,
    n: int,
    cut: bool,
    records: int,
    progress: Callable[[str], None],
) -> PartitionCosts:
    root = work / f"{n}-{cut}"
    root.mkdir()
    steps = _Steps(spark, root, network_of(n, cut))
    shared_s = fixed_s = 0.0
    rows = 0
    for at in range(WARM_UP + COUNTED):
        progress(f"{n} partitions{', cut' if cut else ''}: step {at + 1}")
        part = Range(at * WIDTH_US, (at + 1) * WIDTH_US)
        steps.comes("buys", _buys(at, records), part)
        spent, found = steps.all(part)
        if at < WARM_UP:
            continue
        rows += found
        of_one = {"main", "main_cut"} if n else set()
        shared_s += sum(s for name, s in spent.items() if name not in of_one)
        fixed_s += sum(s for name, s in spent.items() if name in of_one)
    per = 1e6 / (records * COUNTED)
    return PartitionCosts(
        n=n, cut=cut, shared_us=shared_s * per, fixed_us=fixed_s * per, rows=rows
    )  # fmt: skip


def _buys(number: int, records: int) -> pa.Table:
    """A bucket of records, their users drawn by the law of Zipf."""
    random = np.random.default_rng(number)
    weights = 1 / np.arange(1, USERS + 1)
    users = random.choice(USERS, records, p=weights / weights.sum())
    at_us = np.sort(random.integers(number * WIDTH_US, (number + 1) * WIDTH_US, records))
    names = pa.array([f"u{n}" for n in range(USERS)])
    eur = random.integers(1, 500, records)
    return pa.table({"at_us": at_us, "user": names.take(pa.array(users)), "eur": eur})
