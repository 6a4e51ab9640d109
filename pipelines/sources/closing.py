"""Closing buckets: the landed records of a run of buckets become a segment.

A landed file that has the form of a segment's, and many records of the segment, is named by it: its
digests are in the catalog, and nobody reads its records. It may hold records of other segments, but
none of a bucket that its source has not promised. The records of all other files are copied into
one: of small files, and of those that several streams share, since a segment's file holds one
stream. Of many streams that are closed at once, one search finds the files and one pass goes over
the records that are copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.commits import Commit, LandedPart, Lease
from medusa_core.decide import CloseBuckets
from medusa_core.digest import EMPTY, Digest, sum_of
from medusa_core.names import PlanId
from medusa_core.segments import SegmentFile
from pipelines.base.phase_times import Phases
from pipelines.sources.landing import (
    NAMED_ROWS_MIN,
    ClosedLines,
    check_counts,
    closing_commit,
    read_landed,
    unless_closed,
    with_buckets,
)
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import STIME, record_schema
from pipelines.storage.segment_files import check_file, keep_files, new_attempt, write_file

_THREADS = ThreadPoolExecutor(4, "medusa-closing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """A run of buckets to be closed: the stream's columns, and the lease and plan of its commit."""

    decision: CloseBuckets
    columns: tuple[Column, ...]
    lease: Lease
    plan: PlanId


@dataclass(frozen=True, slots=True)
class BucketCloser:
    """Closes buckets of the streams that are landed in one home."""

    catalog: ClosedLines
    root: Path

    def close(self, closing: Closing) -> Commit:
        """See `close_buckets`."""
        return close_buckets(closing, self.catalog, self.root)

    def close_together(self, closings: Sequence[Closing]) -> list[Commit]:
        """See `close_together`."""
        return close_together(closings, self.catalog, self.root)


def close_buckets(closing: Closing, catalog: ClosedLines, root: Path) -> Commit:
    """Write the segment of a run of buckets from the landed files; the commit is not yet made.

    Raises Conflict if another driver has closed them meanwhile, Refused if a landed file has other
    records than were landed, Unavailable if one is gone or damaged.
    """
    with unless_closed(catalog, closing.decision):
        (commit,) = close_together([closing], catalog, root)
    return commit


def close_together(closings: Sequence[Closing], catalog: ClosedLines, root: Path) -> list[Commit]:
    """As `close_buckets`, for each in its order; nothing is committed.

    Raises what that raises, but for Conflict, for all of them: try each alone.
    """
    phases = Phases()
    with phases.phase("read"):
        parts = [(c.decision.landing.stream, c.decision.range) for c in closings]
        landed = [_divided(found) for found in catalog.landed_parts(parts)]
        for named, _ in landed:
            for part in named:
                check_file(root, part.file)
    alike: dict[tuple[Column, ...], list[int]] = {}
    for number, closing in enumerate(closings):
        alike.setdefault(closing.columns, []).append(number)
    closed: dict[int, tuple[Mapping[int, Digest], tuple[SegmentFile, ...]]] = {}
    for columns, numbers in alike.items():
        mine = [closings[number] for number in numbers]
        with phases.phase("read"):
            tables = [
                _landed(root, closing, landed[number].copied)
                for number, closing in zip(numbers, mine, strict=True)
            ]
        with phases.phase("write"):
            named_parts = [landed[number].named for number in numbers]
            written = _written(root, mine, columns, named_parts, tables)
        closed.update(zip(numbers, written, strict=True))
    with phases.phase("sync"):
        keep_files(root, [file for _, written in closed.values() for file in written])
    shared_ms = {name: ms / len(closings) for name, ms in phases.ms.items()}
    return [
        closing_commit(closing.decision, closing.lease, closing.plan, *closed[number], shared_ms)
        for number, closing in enumerate(closings)
    ]


class _Divided(NamedTuple):
    """Landed files of a range: those that its segment names, and those whose records are copied."""

    named: Sequence[LandedPart]
    copied: Sequence[SegmentFile]


def _divided(found: Sequence[LandedPart]) -> _Divided:
    named = [
        part
        for part in found
        if part.is_promised and sum_of(part.digests.values()).rows >= NAMED_ROWS_MIN
    ]
    return _Divided(named, [part.file for part in found if part not in named])


def _landed(root: Path, closing: Closing, files: Sequence[SegmentFile]) -> pa.Table:
    """A stream's landed records of the range, in the order in which they landed."""
    stream, part = closing.decision.landing.stream, closing.decision.range
    tables = [read_landed(root, file, closing.columns, stream, part) for file in files]
    return pa.concat_tables(tables) if tables else record_schema(closing.columns).empty_table()


def _written(
    root: Path, closings: Sequence[Closing], columns: tuple[Column, ...],
    named: Sequence[Sequence[LandedPart]], tables: Sequence[pa.Table],
) -> list[tuple[Mapping[int, Digest], tuple[SegmentFile, ...]]]:  # fmt: skip
    """The digests of each one's buckets, and its files: those named, and one of the records that
    are copied, in the order of event time."""
    table = pa.concat_tables(tables)
    rows = [t.num_rows for t in tables]
    numbers = np.repeat(np.arange(len(tables)), rows)
    stimes = table[STIME].to_numpy()
    order = np.lexsort((stimes, numbers))
    stimes = stimes[order]
    widths = np.array([c.decision.landing.width_us for c in closings], np.int64)
    starts = stimes - stimes % widths[numbers]
    table = with_buckets(table.take(pa.array(order)), columns, starts).combine_chunks()
    found: list[dict[int, Digest]] = [{} for _ in closings]
    if len(starts):
        is_first = (numbers[1:] != numbers[:-1]) | (starts[1:] != starts[:-1])
        runs = np.concatenate(([0], np.cumsum(is_first)))
        firsts = np.concatenate(([0], np.flatnonzero(is_first) + 1))
        for run, digest in digests_by_bucket(table, columns, runs).items():
            row = int(firsts[run])
            found[int(numbers[row])][int(starts[row])] = digest
    bounds = np.concatenate(([0], np.cumsum(rows))).tolist()

    def write(number: int) -> tuple[Mapping[int, Digest], tuple[SegmentFile, ...]]:
        landing, part = closings[number].decision.landing, closings[number].decision.range
        buckets = _with_named(found[number], named[number])
        check_counts(landing.stream, buckets, landing.counts, part.from_us, part.to_us)
        files = tuple(its.file for its in named[number])
        if rows[number]:
            mine = table.slice(bounds[number], rows[number])
            files = (*files, write_file(root, landing.stream, new_attempt(), mine))
        return buckets, files

    return list(_THREADS.map(write, range(len(closings))))


def _with_named(copied: Mapping[int, Digest], named: Sequence[LandedPart]) -> Mapping[int, Digest]:
    """The digest of each bucket, in order, of what is copied and of the files that are named."""
    total = dict(copied)
    for part in named:
        for at_us, digest in part.digests.items():
            total[at_us] = total.get(at_us, EMPTY) + digest
    return dict(sorted(total.items()))
