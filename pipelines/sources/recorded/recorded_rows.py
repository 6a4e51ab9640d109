"""Rows as a reader found them, before they become records: values, and errors by row.

CSV and Parquet readers end here, so that both refuse the same values for the same reasons. A row
with one bad value is quarantined whole; the first bad column in declared order is named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.commits import QuarantinedRecord
from medusa_core.errors import Refused
from medusa_core.names import StreamName
from medusa_core.network import Source
from pipelines.sources.recorded.csv_records import TOO_LONG
from pipelines.sources.recorded.event_times import Int64s, event_times
from pipelines.storage.arrow_schema import columns_of, record_schema


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a row: the column ("" for the whole row) and one phrase."""

    field: str
    reason: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Values of the declared columns, in declared order and type; rows by number with a problem."""

    values: tuple[Any, ...]
    problems: Mapping[int, Problem]


@dataclass(frozen=True, slots=True)
class Target:
    """What rows of one file are to become: records of a source."""

    source: Source
    file: Path
    columns: tuple[Column, ...]

    @classmethod
    def of(cls, source: Source, file: Path) -> Target:
        """The declared columns of a source, checked, for one file.

        Raises Refused if event time is declared as a type that is none.
        """
        columns = columns_of(f"source {source.name!r}", source.columns)
        for column in columns:
            if column.name == source.time and column.type in ("boolean", "binary"):
                raise Refused(
                    f"source {source.name!r} declares its time {column.name!r} as {column.type}: "
                    "declare bigint, double, decimal(p,s), timestamp, date or string"
                )
        return cls(source, file, columns)

    @property
    def schema(self) -> pa.Schema:
        """The schema of the records."""
        return record_schema(self.columns)

    @property
    def time_position(self) -> int:
        """Which of the declared columns is event time."""
        return [c.name for c in self.columns].index(self.source.time)

    def quarantined(
        self, problem: Problem, position: int | None, record: bytes | str
    ) -> QuarantinedRecord:
        """A record that could not be used, in text that any catalog can store."""
        return QuarantinedRecord.of(
            record,
            stream=StreamName(self.source.name),
            origin=os.fsencode(self.file).decode(errors="replace"),
            position=position,
            field=problem.field,
            reason=problem.reason,
            # Of a line that is too long not all may have been kept.
            is_whole=problem.reason != TOO_LONG,
        )


def make_records(
    target: Target,
    rows: Rows,
    unit: str,
    positions: Int64s,
    content: Callable[[int], bytes | str],
) -> tuple[pa.Table, Int64s, list[QuarantinedRecord]]:
    """The good rows as records with `_stime` and their positions, the others as quarantined ones.

    `positions` tells where each row stands (line or row number), `content(row)` what stands there.
    """
    times, timeless = event_times(rows.values[target.time_position], unit, target.source.time_zone)
    time_problems = {row: Problem(target.source.time, why) for row, why in timeless.items()}
    problems = time_problems | dict(rows.problems)
    table = pa.Table.from_arrays([*rows.values, pa.array(times)], schema=target.schema)
    if not problems:
        return table, positions, []
    is_good = np.ones(len(times), np.bool_)
    is_good[list(problems)] = False
    return (
        table.filter(pa.array(is_good)),
        positions[is_good],
        [
            target.quarantined(problems[row], int(positions[row]), content(row))
            for row in sorted(problems)
        ],
    )
