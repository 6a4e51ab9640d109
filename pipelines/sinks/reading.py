"""The rows of a run, read from the files of its segments, batch by batch.

Rows come by event time, ties by all columns in declared order, if the run is small enough to be
sorted in memory; a run of one great bucket comes in the order in which it is stored. A file is read
once, compared with its hash first, and held in memory as it is on disk; of its rows one batch is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medusa_core.columns import Column
from medusa_core.errors import Unavailable
from medusa_core.grid import Range
from medusa_core.segments import Segment, SegmentFile
from pipelines.report.stable_rows import EVENT_TIME
from pipelines.spark.files import read_checked
from pipelines.streams.schemas import BUCKET, STIME, arrow_type, file_schema

SORTED_ROWS_MAX = 1_000_000
ROWS_PER_BATCH = 32_768
OF_BUCKET = "bucket"
"""The name under which a row's bucket is delivered; no declared column can have it."""


def delivered_schema(columns: Sequence[Column]) -> pa.Schema:
    """Event time, the declared columns in their order, and the bucket."""
    instant = arrow_type("timestamp")
    return pa.schema(
        [
            pa.field(EVENT_TIME, instant, nullable=False),
            *(pa.field(c.name, arrow_type(c.type)) for c in columns),
            pa.field(OF_BUCKET, instant, nullable=False),
        ]
    )


def read_run(
    root: Path, segments: Sequence[Segment], columns: Sequence[Column], part: Range, rows: int
) -> Iterator[pa.RecordBatch]:
    """The rows of the segments in `part`, as `delivered_schema` has them; there must be `rows`.

    Raises Unavailable if a file is gone or damaged, or holds another number of rows.
    """
    schema, found = delivered_schema(columns), 0
    batches = _batches(root, segments, columns, part)
    if rows <= SORTED_ROWS_MAX:
        batches = _sorted(batches, columns, schema)
    for batch in batches:
        found += batch.num_rows
        if batch.num_rows:
            yield batch
    if found != rows:
        name = segments[0].stream if segments else "a stream"
        raise Unavailable(
            f"the files of {name} over {part} hold {found} rows, not the {rows} that were "
            "committed: restore them from a backup or another replica"
        )


def _batches(
    root: Path, segments: Sequence[Segment], columns: Sequence[Column], part: Range
) -> Iterator[pa.RecordBatch]:
    stored, schema = file_schema(columns), delivered_schema(columns)
    for file, wanted in _ranges_by_file(segments, part):
        data = pa.BufferReader(read_checked(root, file))
        for batch in pq.ParquetFile(data).iter_batches(ROWS_PER_BATCH, columns=stored.names):
            batch = batch.select(stored.names).cast(stored)
            masks = [_inside(batch[BUCKET], one) for one in wanted]
            mask = masks[0]
            for other in masks[1:]:
                mask = pc.or_(mask, other)
            yield _as_delivered(batch.filter(mask), columns, schema)


def _ranges_by_file(
    segments: Sequence[Segment], part: Range
) -> Iterator[tuple[SegmentFile, list[Range]]]:
    """Each file once, by its first use, with the ranges that are wanted of it."""
    found: dict[SegmentFile, list[Range]] = {}
    for segment in segments:
        span = segment.range.intersection(part)
        if span is None or not segment.within(span):
            continue
        for file in segment.files:
            ranges = found.setdefault(file, [])
            if ranges and ranges[-1].to_us == span.from_us:
                ranges[-1] = ranges[-1].hull(span)
            else:
                ranges.append(span)
    yield from found.items()


def _inside(buckets: pa.Array, part: Range) -> pa.Array:
    return pc.and_(pc.greater_equal(buckets, part.from_us), pc.less(buckets, part.to_us))


def _as_delivered(
    batch: pa.RecordBatch, columns: Sequence[Column], schema: pa.Schema
) -> pa.RecordBatch:
    instant = arrow_type("timestamp")
    arrays = [
        batch[STIME].cast(instant),
        *(batch[column.name] for column in columns),
        batch[BUCKET].cast(instant),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _sorted(
    batches: Iterator[pa.RecordBatch], columns: Sequence[Column], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    table = pa.Table.from_batches(batches, schema)
    by = [(name, "ascending", "at_start") for name in (EVENT_TIME, *(c.name for c in columns))]
    ordered = table.take(pc.sort_indices(table, by)) if len(table) > 1 else table
    yield from ordered.to_batches(ROWS_PER_BATCH)
