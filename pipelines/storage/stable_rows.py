"""The stable prefix of a stream and its rows, for readers (design 12).

The stable prefix ends before the first bucket that is not final, whichever its producer. Rows are
in event-time order, ties by all columns in declared order. Files without requested buckets are
not opened, and with a limit no more buckets are read than can fill it. A file that is opened is
checked against its hash first.

Limit: the rows of the buckets read for one answer must fit into memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.grid import Range
from medusa_core.segments import Segment
from pipelines.base.time_text import iso
from pipelines.storage.arrow_schema import STIME, record_schema
from pipelines.storage.segment_rows import read_segments

EVENT_TIME = "stime"
"""The name of event time among a row's columns; no declared column can have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of a stream: event times and values, and whether there are more of them."""

    columns: tuple[Column, ...]
    stimes_us: tuple[int, ...]
    values: tuple[tuple[Any, ...], ...]
    has_more: bool


def stable_through_us(segments: Sequence[Segment], origin_us: int | None) -> int | None:
    """Where the stable prefix ends; None if the stream has not begun."""
    if origin_us is None:
        return None
    at_us = origin_us
    for segment in sorted(segments, key=lambda s: s.range):
        if segment.range.from_us > at_us:
            break
        if segment.stability.is_final:
            at_us = max(at_us, segment.range.to_us)
    return at_us


def read_rows(
    root: Path, segments: Sequence[Segment], columns: Sequence[Column], part: Range, limit: int
) -> Rows:
    """The first `limit` rows with event time in `part`, from segments that are all final."""
    found: list[pa.Table] = []
    rows_needed = limit + 1
    for segment in segments:
        span = segment.range.intersection(part)
        while span is not None and rows_needed > 0:
            upto_us = _enough(segment, span, rows_needed)
            table = _sorted_rows(root, segment, columns, Range(span.from_us, upto_us))
            found.append(table.slice(0, rows_needed))
            rows_needed -= found[-1].num_rows
            span = Range(upto_us, span.to_us) if upto_us < span.to_us else None
    return _rows(found, columns, limit)


def _enough(segment: Segment, span: Range, rows_needed: int) -> int:
    """The end of the first buckets of a span that surely hold as many rows as are needed."""
    starts = sorted(at for at in segment.buckets if at < span.to_us)
    rows = 0
    for position, at in enumerate(starts):
        # A bucket that the span cuts, at its start, may lose any of its rows.
        rows += segment.buckets[at].rows if at >= span.from_us else 0
        if rows >= rows_needed and position + 1 < len(starts):
            return max(starts[position + 1], span.from_us + 1)
    return span.to_us


def _sorted_rows(root: Path, segment: Segment, columns: Sequence[Column], span: Range) -> pa.Table:
    # Buckets are selected by their start, so the one that the span begins in is selected too.
    before = [at for at in segment.buckets if at < span.from_us]
    wide = Range(max(before), span.to_us) if before else span
    tables = list(read_segments(root, [segment], columns, wide))
    table = pa.concat_tables([record_schema(columns).empty_table(), *tables])
    inside = pc.and_(
        pc.greater_equal(table[STIME], span.from_us), pc.less(table[STIME], span.to_us)
    )
    table = table.filter(inside)
    by = [(STIME, "ascending", "at_start"), *((c.name, "ascending", "at_start") for c in columns)]
    return table.take(pc.sort_indices(table, by))


def _rows(tables: Sequence[pa.Table], columns: Sequence[Column], limit: int) -> Rows:
    stimes: list[int] = []
    values: list[tuple[Any, ...]] = []
    for table in tables:
        stimes += table[STIME].to_pylist()
        values += zip(*(table[c.name].to_pylist() for c in columns), strict=True)
    return Rows(
        columns=tuple(columns),
        stimes_us=tuple(stimes[:limit]),
        values=tuple(values[:limit]),
        has_more=len(values) > limit,
    )


def documents(rows: Rows) -> Iterator[Mapping[str, Any]]:
    """Each row as JSON values: column -> value, and its event time."""
    for stime_us, values in zip(rows.stimes_us, rows.values, strict=True):
        named = {c.name: json_value(v) for c, v in zip(rows.columns, values, strict=True)}
        yield {EVENT_TIME: iso(stime_us), **named}


def json_value(value: Any) -> Any:
    """A value as JSON can say it exactly: decimals, times, bytes and NaN as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime | date):
        return value.isoformat().replace("+00:00", "Z")
    return value


def plain(value: Any) -> str:
    """A value as a person reads it; NULL differs from empty text."""
    value = json_value(value)
    if value is None:
        return "NULL"
    return json.dumps(value) if isinstance(value, bool) else str(value)
