"""A stream's rows, read from the files that its live segments name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column, declare_columns
from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.segments import Segment
from medusa_core.suggest import did_you_mean
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import StreamRecord
from pipelines.storage.arrow_schema import BUCKET, file_schema
from pipelines.storage.segment_files import read_rows


def stream_record(catalog: Lines, stream: str) -> StreamRecord:
    """The stream as deployed; Refused, naming those that are there, if it is unknown."""
    known = {status.stream.name: status.stream for status in catalog.streams()}
    if stream not in known:
        hint = did_you_mean(stream, known, "it has " + (", ".join(sorted(known)) or "none"))
        raise Refused(f"there is no stream {stream!r} in this home: {hint}")
    return known[StreamName(stream)]


def columns_of(record: StreamRecord) -> tuple[Column, ...]:
    """The stream's declared columns."""
    return declare_columns(f"stream {record.name}", record.columns)


def read_segments(
    root: Path, segments: Sequence[Segment], columns: Sequence[Column], part: Range | None = None
) -> Iterator[pa.Table]:
    """The rows of the segments (those in `part`), one table per segment, with `_stime`."""
    schema = file_schema(columns)
    for segment in segments:
        span = segment.range if part is None else segment.range.intersection(part)
        if span is None or not segment.within(span):
            continue
        for file in segment.files:
            table = read_rows(root, file, schema)
            inside = pc.and_(
                pc.greater_equal(table[BUCKET], span.from_us), pc.less(table[BUCKET], span.to_us)
            )
            yield table.filter(inside).drop_columns([BUCKET])
