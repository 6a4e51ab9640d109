"""Rows of a partition, read by a worker: Arrow batches of files with the committed content.

A file is held in memory as it is on disk; of its rows, one batch at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from medusa_core.errors import Unavailable
from medusa_core.grid import Range
from medusa_core.segments import SegmentFile
from pipelines.datasource.home_access import storage_here
from pipelines.datasource.partitions import BucketRange, FilePart, FilesPartition
from pipelines.datasource.spark_columns import MISSING, REVISION, STABILITY
from pipelines.storage.arrow_schema import BUCKET, STIME
from pipelines.storage.segment_files import read_checked, rows_of
from pipelines.storage.stable_rows import EVENT_TIME
from pipelines.storage.store import is_inside, read_file

ROWS_PER_BATCH = 32_768
_MARKS = (STABILITY, MISSING, REVISION)


def read_partition(partition: FilesPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    """The rows of a partition in the columns of a schema.

    Raises Unavailable, before a row of it is given, if a file is gone or damaged.
    """
    root = storage_here(partition.home)
    expected = to_arrow_schema(schema, timezone="UTC")
    for part in partition.files:
        yield from _read_file(root, part, partition.part, expected)


def _read_file(
    root: Path, part: FilePart, span: Range, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    data = _checked(root, part.file)
    stored = [name for name in schema.names if name not in (EVENT_TIME, *_MARKS)]
    has_marks = not set(_MARKS).isdisjoint(schema.names)
    names = list(dict.fromkeys((*stored, STIME, BUCKET)))
    with rows_of(root / part.file.path):
        batches = pq.ParquetFile(pa.BufferReader(data)).iter_batches(ROWS_PER_BATCH, columns=names)
        for batch in batches:
            for found, marks in _chosen(batch, part.ranges, span, has_marks=has_marks):
                if found.num_rows:
                    yield _of_partition(found, marks, schema)


def _checked(root: Path, file: SegmentFile) -> pa.Buffer:
    if not is_inside(file.path):
        raise Unavailable(f"file {file.path} is outside {root}: restore the catalog")
    read_file(root, file, _check_there)
    return read_checked(root, file)


def _check_there(path: Path) -> None:
    if not path.exists():
        raise Unavailable(
            f"file {path} is gone: if its stream was trimmed or compacted meanwhile read again, "
            "else restore the file from a backup or another replica"
        )


def _chosen(
    batch: pa.RecordBatch, ranges: Sequence[BucketRange], span: Range, *, has_marks: bool
) -> Iterable[tuple[pa.RecordBatch, BucketRange]]:
    """The rows in `span` of each range, with its marks if `has_marks`."""
    inside = _between(batch[STIME], span)
    masks = [pc.and_(inside, _between(batch[BUCKET], of.range)) for of in ranges]
    if has_marks:
        for of, mask in zip(ranges, masks, strict=True):
            yield batch.filter(mask), of
        return
    mask = masks[0]
    for other in masks[1:]:
        mask = pc.or_(mask, other)
    yield (batch if mask.true_count == len(mask) else batch.filter(mask)), ranges[0]


def _between(values: pa.Array, part: Range) -> pa.Array:
    return pc.and_(pc.greater_equal(values, part.from_us), pc.less(values, part.to_us))


def _of_partition(batch: pa.RecordBatch, marks: BucketRange, schema: pa.Schema) -> pa.RecordBatch:
    rows = batch.num_rows
    arrays = []
    for field in schema:
        if field.name == EVENT_TIME:
            values = batch[STIME].cast(field.type)
        elif field.name == STABILITY:
            values = pa.repeat(pa.scalar(marks.stability.value, field.type), rows)
        elif field.name == REVISION:
            values = pa.repeat(pa.scalar(marks.revision, field.type), rows)
        elif field.name == MISSING:
            values = pa.repeat(pa.scalar(list(marks.missing), field.type), rows)
        else:
            values = batch[field.name].cast(field.type)
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
