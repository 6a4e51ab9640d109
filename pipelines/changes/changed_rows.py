"""Rows of the changes of one bucket, as Arrow: read, compared as multisets, put into order.

A bucket's rows are hashed as in its digest, with their event time; equal hashes are equal rows.
Of a file only the rows of the requested buckets are read. Limit: the rows of one bucket, at both
versions, and the files that are being read must fit into memory.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.changes import (
    BucketChange,
    ChangeType,
    multiset_difference,
    paired_by_key,
)
from medusa_core.columns import Column
from medusa_core.names import Version
from medusa_core.segments import Segment, SegmentFile, Stability
from pipelines.storage.arrow_digests import row_hashes
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema
from pipelines.storage.segment_files import read_rows

KEPT_BYTES_MAX = 64 * 2**20
"""How much of the files that were read last is kept, for the buckets that come next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """A row that came or went, or (`values` None) a bucket whose rows have another stability now.

    `stime_us` is the row's event time, `bucket_us` where its bucket begins, `version` the one that
    the change belongs to, `stability` what the bucket promises at the later version.
    """

    type: ChangeType
    bucket_us: int
    version: Version
    stability: Stability
    stime_us: int | None = None
    values: tuple[Any, ...] | None = None


class BucketRows:
    """The rows of buckets, out of files that are checked against their hash when they are read."""

    def __init__(self, root: Path, columns: Sequence[Column]) -> None:
        self._root = root
        self._columns = columns
        self._schema = file_schema(columns)
        self._kept: OrderedDict[SegmentFile, pa.Table] = OrderedDict()

    def of(self, segment: Segment | None, at_us: int) -> pa.Table:
        """The rows of a bucket of a segment, in event-time order, ties by all columns."""
        tables = [self._schema.empty_table()]
        for file in segment.files if segment is not None else ():
            table = self._read(file)
            # Sorted by bucket, so that a bucket is a slice of it.
            starts = table[BUCKET].to_numpy()
            first, past = np.searchsorted(starts, [at_us, at_us + 1])
            tables.append(table.slice(int(first), int(past - first)))
        table = pa.concat_tables(tables)
        names = [STIME, *(c.name for c in self._columns)]
        by = [(name, "ascending", "at_start") for name in names]
        return table.take(pc.sort_indices(table, by))

    def _read(self, file: SegmentFile) -> pa.Table:
        if file in self._kept:
            self._kept.move_to_end(file)
            return self._kept[file]
        table = read_rows(self._root, file, self._schema)
        table = table.take(pc.sort_indices(table, [(BUCKET, "ascending")])).combine_chunks()
        self._kept[file] = table
        while len(self._kept) > 1 and sum(t.nbytes for t in self._kept.values()) > KEPT_BYTES_MAX:
            self._kept.popitem(last=False)
        return table


def changed_rows(
    change: BucketChange, rows: BucketRows, columns: Sequence[Column], key: Sequence[str]
) -> Iterator[RowChange]:
    """The changes of a bucket in event-time order, what goes before what comes at one instant.

    With a key, a row that went and one that came with the same key are an update. If rows stay and
    their stability changes, a promotion of the bucket comes last.
    """
    some_stay = True
    if not change.is_promoted:
        before, after = rows.of(change.before, change.at_us), rows.of(change.after, change.at_us)
        gone, come = list(range(before.num_rows)), list(range(after.num_rows))
        if gone and come:
            gone, come = multiset_difference(_words(before, columns), _words(after, columns))
        some_stay = len(gone) < before.num_rows
        olds, news = before.take(pa.array(gone, pa.int64())), after.take(pa.array(come, pa.int64()))
        yield from _in_order(change, olds, news, columns, key)
    if some_stay and change.was is not None and change.was is not change.stability:
        yield RowChange(
            type=ChangeType.PROMOTE,
            bucket_us=change.at_us,
            version=change.version,
            stability=change.stability,
        )


def _in_order(
    change: BucketChange,
    olds: pa.Table,
    news: pa.Table,
    columns: Sequence[Column],
    key: Sequence[str],
) -> Iterator[RowChange]:
    updates: dict[int, int] = {}
    if key and olds.num_rows and news.num_rows:
        named = [c for c in columns if c.name in key]
        updates = paired_by_key(_words(olds, named, timed=False), _words(news, named, timed=False))
    updated = set(updates.values())
    old_times, new_times = olds[STIME].to_pylist(), news[STIME].to_pylist()
    old_values, new_values = _values(olds, columns), _values(news, columns)
    # (event time, 0 for what goes and 1 for what comes, position)
    order = [(at, 0, i) for i, at in enumerate(old_times)]
    order += [(at, 1, i) for i, at in enumerate(new_times) if i not in updated]
    for at, comes, i in sorted(order):
        if comes:
            yield _row(change, ChangeType.INSERT, at, new_values[i])
        elif i in updates:
            new = updates[i]
            yield _row(change, ChangeType.UPDATE_PREIMAGE, at, old_values[i])
            yield _row(change, ChangeType.UPDATE_POSTIMAGE, new_times[new], new_values[new])
        else:
            yield _row(change, ChangeType.DELETE, at, old_values[i])


def _row(change: BucketChange, type_: ChangeType, at: int, values: tuple[Any, ...]) -> RowChange:
    return RowChange(
        type=type_,
        bucket_us=change.at_us,
        version=change.version,
        stability=change.stability,
        stime_us=at,
        values=values,
    )


def _words(table: pa.Table, columns: Sequence[Column], *, timed: bool = True) -> list[Hashable]:
    first, second = row_hashes(table, columns)
    if not timed:
        return list(zip(first.tolist(), second.tolist(), strict=True))
    return list(zip(first.tolist(), second.tolist(), table[STIME].to_pylist(), strict=True))


def _values(table: pa.Table, columns: Sequence[Column]) -> list[tuple[Any, ...]]:
    return list(zip(*(table[c.name].to_pylist() for c in columns), strict=True))
