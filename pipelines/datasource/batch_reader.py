"""`spark.read.format("medusa")`: rows of one snapshot of the catalog, taken when Spark plans.

A DataFrame that is used twice is planned twice; with `as_of`, or with a `to` in the stable prefix,
it is the same both times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from medusa_core.errors import Expired, Refused
from medusa_core.grid import FOREVER_US, Range
from medusa_core.segments import Segment
from pipelines.base.time_text import iso
from pipelines.datasource.home_access import snapshot_of
from pipelines.datasource.options import ReadOptions, for_batch
from pipelines.datasource.partition_rows import read_partition
from pipelines.datasource.partitions import FilesPartition, check_whole, partitions_of
from pipelines.datasource.spark_columns import check_schema
from pipelines.datasource.stream_snapshot import Snapshot, StreamSnapshot
from pipelines.datasource.user_errors import in_one_sentence
from pipelines.storage.stable_rows import stable_through_us


class BatchReader(DataSourceReader):
    """Plans in the driver's process, reads in the workers'; holds nothing open in between."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = for_batch(options)
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        """The files to read; nothing for a stream that has not begun."""
        options = self._options
        with in_one_sentence(), snapshot_of(options.participant) as seen:
            line = seen.stream_snapshot(options.stream)
            check_schema(line, self._schema, with_marks=options.with_tentative)
            if options.as_of_ms is not None:
                options = replace(options, as_of=seen.version_at(line, options.as_of_ms))
            part = _requested_range(line, options)
            if part is None:
                return []
            segments = _segments(seen, line, part, options)
            if not options.with_tentative:
                part, segments = _stable(line, segments, part, options)
            if part is None:
                return []
            return [*partitions_of(line.home, line.width_us, segments, part, line.revisions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition."""
        # Spark makes a partition of its own up where there is none.
        if isinstance(partition, FilesPartition):
            with in_one_sentence():
                yield from read_partition(partition, self._schema)


def _requested_range(line: StreamSnapshot, options: ReadOptions) -> Range | None:
    """The requested part of what is kept; Expired if a part of it was trimmed."""
    kept_us, lost_us = line.kept_from_us, line.lost_before_us
    from_us, to_us = options.from_us, options.to_us
    if options.as_of is not None and options.as_of > line.version:
        raise Refused(
            f"option as_of {options.as_of} is not there yet: the newest version of {line.stream} "
            f"is {line.version}"
        )
    if kept_us is None:
        return None
    if lost_us is not None and (to_us <= lost_us or (from_us is not None and from_us < lost_us)):
        raise Expired(
            f"{line.stream} is trimmed before {iso(lost_us)}, and earlier rows were requested: "
            "begin there, or leave option from out for all that is kept"
        )
    from_us = max(kept_us, kept_us if from_us is None else from_us)
    return Range(from_us, to_us) if from_us < to_us else None


def _segments(
    seen: Snapshot, line: StreamSnapshot, part: Range, options: ReadOptions
) -> tuple[Segment, ...]:
    if options.as_of is None or options.with_tentative:
        return seen.segments(line, part, options.as_of)
    # Where the stable prefix of a past version ended is known from all of its segments alone.
    whole = Range(line.kept_from_us or part.from_us, FOREVER_US)
    return seen.segments(line, whole, options.as_of)


def _stable(
    line: StreamSnapshot, segments: tuple[Segment, ...], part: Range, options: ReadOptions
) -> tuple[Range | None, tuple[Segment, ...]]:
    """What of `part` lies in the stable prefix."""
    if options.as_of is None:
        through_us = line.stable_through_us
    else:
        through_us = stable_through_us(segments, line.kept_from_us)
    inside = None
    if through_us is not None and part.from_us < through_us:
        inside = part.intersection(Range(part.from_us, through_us))
    if inside is None:
        return None, ()
    check_whole(line.stream, segments, inside)
    return inside, tuple(s for s in segments if s.range.overlaps(inside) and s.stability.is_final)
