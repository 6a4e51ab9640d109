"""Which row groups of a segment's file hold rows of a range of buckets, and where they are in it.

Landing writes rows sorted by event time, so the groups of a range are one run of groups and of
bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.parquet as pq

from medusa_core.grid import Range
from pipelines.storage.arrow_schema import BUCKET


@dataclass(frozen=True, slots=True)
class RowGroups:
    """A run of row groups: their numbers, and the bytes of the file from `start` to `end`."""

    numbers: range
    start: int
    end: int


def groups_of(metadata: pq.FileMetaData, part: Range) -> RowGroups:
    """The groups from the first to the last one that may hold rows of `part`; maybe none."""
    column = metadata.schema.names.index(BUCKET)
    inside = [
        number
        for number in range(metadata.num_row_groups)
        if _may_hold(metadata, number, column, part)
    ]
    if not inside:
        return RowGroups(range(0), 0, 0)
    first, last = inside[0], inside[-1]
    is_last = last + 1 == metadata.num_row_groups
    end = _end_of(metadata, last) if is_last else _start_of(metadata, last + 1)
    return RowGroups(range(first, last + 1), _start_of(metadata, first), end)


def _may_hold(metadata: pq.FileMetaData, number: int, column: int, part: Range) -> bool:
    found = metadata.row_group(number).column(column).statistics
    if found is None or not found.has_min_max:
        return True
    return bool(found.min < part.to_us and found.max >= part.from_us)


def _start_of(metadata: pq.FileMetaData, number: int) -> int:
    chunk = metadata.row_group(number).column(0)
    places = [chunk.data_page_offset, chunk.dictionary_page_offset]
    return min(int(at) for at in places if at)


def _end_of(metadata: pq.FileMetaData, number: int) -> int:
    group = metadata.row_group(number)
    chunks = [group.column(at) for at in range(group.num_columns)]
    return _start_of(metadata, number) + sum(int(chunk.total_compressed_size) for chunk in chunks)
