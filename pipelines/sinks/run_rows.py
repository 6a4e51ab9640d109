"""The rows of a run, read from the files of its segments, batch by batch, in bounded memory.

Rows are ordered by event time, ties by all columns in declared order, if the run is small enough
to be sorted in memory (SORTED_BYTES_MAX; there is a copy for a moment); a greater one keeps the
order in which it is stored. A file is compared with its hash and then read from its beginning, a
row group of some MiB at a time (`storage.segment_files`). So a sink takes some 100 MiB at most,
whatever the size of its rows; a record of a source is 1 MiB at most.
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
from pipelines.storage.arrow_schema import BUCKET, STIME, arrow_type, file_schema
from pipelines.storage.segment_files import open_checked, rows_of
from pipelines.storage.stable_rows import EVENT_TIME

SORTED_ROWS_MAX = 1_000_000
SORTED_BYTES_MAX = 32 << 20
ROWS_PER_BATCH = 32_768
BATCH_BYTES_MAX = 4 << 20
"""Of a batch with more than one row."""

_BUFFER_BYTES = 1 << 20
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
    for file, ranges in _ranges_by_file(segments, part):
        for batch in _read(root, file, stored):
            masks = [_inside(batch[BUCKET], one) for one in ranges]
            mask = masks[0]
            for other in masks[1:]:
                mask = pc.or_(mask, other)
            for piece in _pieces(batch.filter(mask)):
                yield _as_delivered(piece, columns, schema)


def _read(root: Path, file: SegmentFile, stored: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a file, a row group of some MiB in memory, or of one that is greater a part."""
    with open_checked(root, file) as opened, rows_of(root / file.path):
        parquet = pq.ParquetFile(opened, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        for number in range(parquet.num_row_groups):
            group = parquet.metadata.row_group(number)
            fitting = BATCH_BYTES_MAX * group.num_rows // max(group.total_byte_size, 1)
            for batch in parquet.iter_batches(
                max(1, min(fitting, ROWS_PER_BATCH)), row_groups=[number], columns=stored.names,
                use_threads=False,
            ):  # fmt: skip
                yield batch.select(stored.names).cast(stored)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in pieces none of which is too large, if it can be cut."""
    if batch.num_rows > 1 and batch.nbytes > BATCH_BYTES_MAX:
        half = batch.num_rows // 2
        yield from _pieces(batch.slice(0, half))
        yield from _pieces(batch.slice(half))
    elif batch.num_rows:
        yield batch


def _ranges_by_file(
    segments: Sequence[Segment], part: Range
) -> Iterator[tuple[SegmentFile, list[Range]]]:
    """Each file once, by its first use, with the ranges to read from it."""
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
    """The rows in order; as they come, if they are too many bytes to be held."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes > SORTED_BYTES_MAX:
            while held:
                yield held.pop(0)
            yield from batches
            return
    by = [(name, "ascending", "at_start") for name in (EVENT_TIME, *(c.name for c in columns))]
    table = pa.Table.from_batches(held, schema)
    held.clear()
    if len(table) > 1:
        table = table.take(pc.sort_indices(table, by))
    for batch in table.to_batches(ROWS_PER_BATCH):
        yield from _pieces(batch)
