"""The cases: a box between its sources and an output, its records, and the same rows by others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.answering import WIDTH_US
from bench.boxes import COLUMNS
from bench.language.batch_rows import (
    Batches,
    first_rows,
    joined_rows,
    looked_up_rows,
    running_rows,
    session_rows,
)
from bench.language.streamed_rows import streamed_first, streamed_join, streamed_sessions
from bench.streaming import CHANGELOG, FASTEST_LARGE, ROCKSDB_STATE
from medusa_core.network import (
    Box,
    Deduplicate,
    Join,
    Lookup,
    Network,
    Output,
    Running,
    Session,
    Source,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROCKSDB = {**FASTEST_LARGE, **ROCKSDB_STATE, **CHANGELOG}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A box over one or two streams, and the same rows by the other contenders.

    `at_us` is the event time of a row, as SQL. `batch` computes the rows of a window in bare Spark.
    `streamed` computes the rows of streams whose time is the column `at`, under `settings`;
    `compared` are the columns in which its rows are the same (default: all). The stream `once` has
    one record of each key, in the first window, in which no other stream has records.
    """

    name: str
    box: Box
    keys: int
    columns: tuple[str, ...]
    at_us: str
    batch: Callable[[Batches, int], DataFrame]
    streamed: Callable[[Mapping[str, DataFrame]], DataFrame] | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    compared: tuple[str, ...] = ()
    once: str = ""

    @property
    def streams(self) -> tuple[str, ...]:
        """The inputs of the box."""
        return ("left", "right") if isinstance(self.box, Join | Lookup) else ("left",)

    @property
    def contenders(self) -> tuple[str, ...]:
        """Those that can compute the case."""
        return ("bare", "medusa", *(["streaming"] if self.streamed else []))

    @property
    def network(self) -> Network:
        """The box between its sources and an output."""
        return Network(
            name=self.name,
            sources=tuple(Source(name=s, columns=COLUMNS, time="at_us") for s in self.streams),
            boxes=(self.box,),
            outputs=(Output(name="out", input="box"),),
        )

    def records(self, stream: str, window: int, number: int, keys: int) -> pa.Table:
        """A stream's records of a window, in order of time; no two have the same time.

        None has time 0: before its first batch the watermark of Structured Streaming is there.
        """
        random = np.random.default_rng([window, self.streams.index(stream)])
        if not self.once or (window > 0 and stream == "left"):
            keyed = random.integers(0, keys, number)
        else:
            keyed = random.permutation(keys if window == 0 and stream == self.once else 0)
        apart_us = (WIDTH_US - 1) // max(len(keyed), 1)
        at_us = 1 + window * WIDTH_US + np.arange(len(keyed)) * apart_us
        return pa.table(
            {
                "at_us": pa.array(at_us + random.integers(0, min(apart_us, 5), len(keyed))),
                "key": pa.array(np.char.add("key-", keyed.astype("U8"))),
                "port": pa.array(random.integers(0, 65_536, len(keyed)).astype(np.int32)),
            }
        )


MILLION = 1_000_000
CASES = {
    case.name: case
    for case in (
        Case(
            name="join", keys=100_000, columns=("key", "left_us", "right_us"),
            at_us="greatest(left_us, right_us)",
            box=Join(name="box", left="left", right="right", on=("key",), within=("-2s", "2s"),
                     columns={"key": "left.key", "left_us": "left.at_us",
                              "right_us": "right.at_us"}),
            batch=joined_rows, streamed=streamed_join, settings=ROCKSDB,
        ),
        Case(
            name="lookup", keys=MILLION, once="right", columns=("at_us", "key", "level"),
            at_us="at_us",
            box=Lookup(name="box", input="left", table="right", on=("key",), max_age="1h",
                       columns={"at_us": "input.at_us", "key": "input.key",
                                "level": "table.port"}),
            batch=looked_up_rows,
        ),
        Case(
            name="session", keys=100_000, columns=("key", "n", "total", "last_us"),
            at_us="last_us + 999999",
            box=Session(name="box", input="left", by=("key",), gap="1s", length_max="10s",
                        columns={"n": "count(*)", "total": "sum(port)",
                                 "last_us": "max(at_us)"}),
            batch=session_rows, streamed=streamed_sessions, settings=FASTEST_LARGE,
        ),
        Case(
            name="deduplicate", keys=MILLION, columns=("at_us", "key", "port"),
            compared=("key",), at_us="at_us",
            box=Deduplicate(name="box", input="left", by=("key",), within="1h"),
            batch=first_rows, streamed=streamed_first, settings=FASTEST_LARGE,
        ),
        Case(
            name="running", keys=MILLION, once="left", columns=("at_us", "key", "n", "total"),
            at_us="at_us",
            box=Running(name="box", input="left", by=("key",), within="1h",
                        columns={"n": "count(*)", "total": "sum(port)"}),
            batch=running_rows,
        ),
    )
}  # fmt: skip
