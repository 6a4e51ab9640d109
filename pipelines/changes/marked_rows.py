"""Rows with the stability of their segments: tentative ones as well as stable ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medusa_core.columns import Column
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.segments import Segment, Stability
from pipelines.storage.stable_rows import Rows, read_rows

Marks = tuple[Stability, tuple[StreamName, ...]]


@dataclass(frozen=True, slots=True)
class MarkedRows:
    """Rows, each with its stability and the inputs that were missing."""

    rows: Rows
    marks: tuple[Marks, ...]


def read_marked(
    root: Path,
    segments: Sequence[Segment],
    columns: Sequence[Column],
    part: Range | None,
    limit: int,
) -> MarkedRows:
    """The first `limit` rows with event time in `part` (None: none), whatever they promise.

    `segments` are of one version of a line, in event-time order. Raises Unavailable if a file is
    gone or damaged.
    """
    stimes: list[int] = []
    values: list[tuple[Any, ...]] = []
    marks: list[Marks] = []
    for segment in segments:
        if part is None or not segment.range.overlaps(part):
            continue
        if len(values) > limit:
            break
        found = read_rows(root, [segment], columns, part, limit + 1 - len(values))
        stimes += found.stimes_us
        values += found.values
        marks += [(segment.stability, segment.missing)] * len(found.values)
    return MarkedRows(
        rows=Rows(
            columns=tuple(columns),
            stimes_us=tuple(stimes[:limit]),
            values=tuple(values[:limit]),
            has_more=len(values) > limit,
        ),
        marks=tuple(marks[:limit]),
    )
