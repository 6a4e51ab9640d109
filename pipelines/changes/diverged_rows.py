"""Rows over which producers of a stream disagree, for a person to inspect before a recall."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from medusa_core.changes import BucketChange, ChangeType
from medusa_core.columns import Column
from medusa_core.divergence import Divergence, Side
from medusa_core.errors import Unavailable
from medusa_core.grid import Range
from medusa_core.segments import Producer, Segment, Stability
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import StreamRecord
from pipelines.changes.changed_rows import BucketRows, changed_rows
from pipelines.storage.segment_rows import columns_of

ROWS_MAX = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingRow:
    """A row that only one of the two has (or has once more than the other), in canonical order."""

    producer: Producer
    stime_us: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A divergence and its first differing rows; `lost` names who has no row there any more.

    `problem` says why the rows cannot be shown, if a file of them cannot be read.
    """

    divergence: Divergence
    columns: tuple[Column, ...]
    rows: tuple[DifferingRow, ...]
    lost: tuple[Producer, ...] = ()
    problem: str | None = None


def explained(catalog: Lines, root: Path, divergence: Divergence) -> Explained:
    """The first rows that differ, as far as their files can be read."""
    record = next(line.stream for line in catalog.lines(divergence.stream))
    columns = columns_of(record)
    sides = (divergence.one, divergence.other)
    found = [_segment(catalog, divergence, side, record) for side in sides]
    lost = tuple(
        side.producer
        for side, segment in zip(sides, found, strict=True)
        if segment is None and side.digest.rows > 0
    )
    rows: tuple[DifferingRow, ...] = ()
    problem: str | None = None
    if not lost:
        try:
            differing = _rows(root, divergence, columns, found[0], found[1])
            rows = tuple(islice(differing, ROWS_MAX))
        except Unavailable as error:
            # That they disagree, and what to do, is reported all the same.
            problem = str(error)
    return Explained(divergence=divergence, columns=columns, rows=rows, lost=lost, problem=problem)


def _segment(
    catalog: Lines, divergence: Divergence, side: Side, record: StreamRecord
) -> Segment | None:
    """The segment with the rows that a side had when they were compared."""
    bucket = Range(divergence.bucket_us, divergence.bucket_us + record.width_us)
    for as_of in (None, side.version):
        segments = catalog.segments(divergence.stream, bucket, producer=side.producer, as_of=as_of)
        for segment in segments:
            if segment.buckets.get(divergence.bucket_us) == side.digest:
                return segment
    return None


def _rows(
    root: Path,
    divergence: Divergence,
    columns: tuple[Column, ...],
    one: Segment | None,
    other: Segment | None,
) -> Iterator[DifferingRow]:
    # What goes from the one and what comes with the other is what only one of them has.
    change = BucketChange(
        at_us=divergence.bucket_us,
        version=divergence.other.version,
        stability=Stability.STABLE,
        was=Stability.STABLE,
        before=one,
        after=other,
    )
    for row in changed_rows(change, BucketRows(root, columns), columns, ()):
        if row.type is ChangeType.PROMOTE:
            continue
        side = divergence.one if row.type is ChangeType.DELETE else divergence.other
        yield DifferingRow(
            producer=side.producer, stime_us=row.stime_us or 0, values=row.values or ()
        )
