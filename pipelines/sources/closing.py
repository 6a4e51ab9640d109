"""Closing many streams' buckets at once: one search for files, one pass over their records.

The result is that of `landing.close_buckets` for each stream alone: a segment's file holds one
stream. Only the parts that do not depend on the stream of a record are shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.commits import Commit, Lease
from medusa_core.decide import CloseBuckets
from medusa_core.digest import Digest
from medusa_core.names import PlanId
from medusa_core.segments import SegmentFile
from pipelines.base.phase_times import Phases
from pipelines.sources.landing import (
    ClosedLines,
    check_counts,
    close_buckets,
    closing_commit,
    read_landed,
)
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema, record_schema
from pipelines.storage.segment_files import new_attempt, sync_folders, write_file

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
        return close_buckets(
            closing.decision,
            self.catalog,
            self.root,
            closing.columns,
            closing.lease,
            closing.plan,
        )

    def close_together(self, closings: Sequence[Closing]) -> list[Commit]:
        """See `close_together`."""
        return close_together(closings, self.catalog, self.root)


def close_together(closings: Sequence[Closing], catalog: ClosedLines, root: Path) -> list[Commit]:
    """As `close_buckets`, for each in its order; nothing is committed.

    Raises what that raises, for all of them: try each alone.
    """
    phases = Phases()
    with phases.phase("read"):
        parts = [(c.decision.landing.stream, c.decision.range) for c in closings]
        files = catalog.landed_files_of(parts)
    alike: dict[tuple[Column, ...], list[int]] = {}
    for number, closing in enumerate(closings):
        alike.setdefault(closing.columns, []).append(number)
    closed: dict[int, tuple[dict[int, Digest], tuple[SegmentFile, ...]]] = {}
    for columns, numbers in alike.items():
        mine = [closings[number] for number in numbers]
        with phases.phase("read"):
            tables = [
                _landed(root, closing, files[number])
                for number, closing in zip(numbers, mine, strict=True)
            ]
        with phases.phase("write"):
            written = _written(root, mine, columns, tables)
        closed.update(zip(numbers, written, strict=True))
    with phases.phase("sync"):
        sync_folders(root, [file for _, written in closed.values() for file in written])
    shared_ms = {name: ms / len(closings) for name, ms in phases.ms.items()}
    return [
        closing_commit(closing.decision, closing.lease, closing.plan, *closed[number], shared_ms)
        for number, closing in enumerate(closings)
    ]


def _landed(root: Path, closing: Closing, files: Sequence[SegmentFile]) -> pa.Table:
    """A stream's landed records of the range, in the order in which they landed."""
    stream, part = closing.decision.landing.stream, closing.decision.range
    tables = [read_landed(root, file, closing.columns, stream, part) for file in files]
    return pa.concat_tables(tables) if tables else record_schema(closing.columns).empty_table()


def _written(
    root: Path, closings: Sequence[Closing], columns: tuple[Column, ...], tables: Sequence[pa.Table]
) -> list[tuple[dict[int, Digest], tuple[SegmentFile, ...]]]:
    """The digests of each one's buckets, and its file, in the order of event time."""
    table = pa.concat_tables(tables)
    rows = [t.num_rows for t in tables]
    numbers = np.repeat(np.arange(len(tables)), rows)
    stimes = table[STIME].to_numpy()
    order = np.lexsort((stimes, numbers))
    stimes = stimes[order]
    widths = np.array([c.decision.landing.width_us for c in closings], np.int64)
    starts = stimes - stimes % widths[numbers]
    table = table.take(pa.array(order)).append_column(BUCKET, pa.array(starts, pa.int64()))
    table = table.cast(file_schema(columns)).combine_chunks()
    found: list[dict[int, Digest]] = [{} for _ in closings]
    if len(starts):
        is_first = (numbers[1:] != numbers[:-1]) | (starts[1:] != starts[:-1])
        runs = np.concatenate(([0], np.cumsum(is_first)))
        firsts = np.concatenate(([0], np.flatnonzero(is_first) + 1))
        for run, digest in digests_by_bucket(table, columns, runs).items():
            row = int(firsts[run])
            found[int(numbers[row])][int(starts[row])] = digest
    bounds = np.concatenate(([0], np.cumsum(rows))).tolist()

    def write(number: int) -> tuple[SegmentFile, ...]:
        landing, part = closings[number].decision.landing, closings[number].decision.range
        check_counts(landing.stream, found[number], landing.counts, part.from_us, part.to_us)
        if not rows[number]:
            return ()
        mine = table.slice(bounds[number], rows[number])
        return (write_file(root, landing.stream, new_attempt(), mine),)

    return list(zip(found, _THREADS.map(write, range(len(closings))), strict=True))
