"""Landing: records from outside become a log of files, and closed buckets become segments.

A landed batch is one file sorted by event time, logged once under its key; nothing is promised of
it. A file of many records has the form of a segment's file, and its digests are logged with it, so
that closing (`pipelines.sources.closing`) names the file and neither reads nor writes its records.
Purity starts at the landed record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from medusa_core.columns import Column
from medusa_core.commits import (
    Cause,
    Commit,
    LandedBatch,
    Lease,
    OutputSegment,
    QuarantinedRecord,
    StepMetrics,
)
from medusa_core.decide import CloseBuckets
from medusa_core.digest import Digest
from medusa_core.errors import Conflict, Refused, Unavailable
from medusa_core.grid import Range
from medusa_core.names import PlanId, StreamName
from medusa_core.segments import SegmentFile, Stability
from pipelines.base.failpoints import reached
from pipelines.catalog.processing_roles import LandedFiles, Landing
from pipelines.catalog.reading_roles import Lines
from pipelines.storage.arrow_digests import Int64s, digests_by_bucket
from pipelines.storage.arrow_schema import BUCKET, STIME, file_schema, record_schema
from pipelines.storage.segment_files import (
    check_file,
    keep_files,
    new_attempt,
    rows_of,
    write_file,
)
from pipelines.storage.shared_files import SharedFiles, is_shared
from pipelines.storage.store import read_file


class LandedLines(Landing, Lines, Protocol):
    """Where records land, and the lines that they make."""


class ClosedLines(LandedFiles, Lines, Protocol):
    """Landed files, and how far each line has been closed."""


LANDED = "landed"
"""The folder of landed files inside a stream's folder."""

NAMED_ROWS_MIN = 32_768
"""A landed file with as many records of a segment is named by it; fewer are copied. Each file that
a step reads costs as much as some thousand records, and two row groups at most that it does not
need."""

_SHARED = SharedFiles()


def landed_batch(
    root: Path,
    stream: StreamName,
    query_id: str,
    batch_id: int,
    records: pa.Table,
    columns: Sequence[Column],
    width_us: int,
    quarantine: Sequence[QuarantinedRecord] = (),
) -> LandedBatch:
    """Write the records as one synced file in event-time order; nothing is logged yet."""
    stimes = records[STIME].to_numpy()
    if not bool((stimes[1:] >= stimes[:-1]).all()):
        order = np.argsort(stimes, kind="stable")
        records, stimes = records.take(order), stimes[order]
    starts = stimes - stimes % width_us
    digests: Mapping[int, Digest] = {}
    if records.num_rows >= NAMED_ROWS_MIN:
        records = with_buckets(records, columns, starts)
        digests = digests_by_bucket(records, columns, starts)
        counts = {at: digest.rows for at, digest in digests.items()}
    else:
        buckets, rows = np.unique(starts, return_counts=True)
        counts = dict(zip(buckets.tolist(), rows.tolist(), strict=True))
    file = None
    if records.num_rows:
        file = write_file(root, StreamName(f"{stream}/{LANDED}"), new_attempt(), records)
        keep_files(root, [file])
    reached("land.written")
    return LandedBatch(
        stream=stream,
        query_id=query_id,
        batch_id=batch_id,
        file=file,
        counts=counts,
        quarantine=tuple(quarantine),
        digests=digests,
    )


def with_buckets(records: pa.Table, columns: Sequence[Column], starts: Int64s) -> pa.Table:
    """Records in the form of a segment's file; `starts` are the beginnings of their buckets."""
    table = records.append_column(BUCKET, pa.array(starts, pa.int64()))
    return table.cast(file_schema(columns))


def log_batch(catalog: Landing, lease: Lease, batch: LandedBatch) -> bool:
    """Log a landed batch; False if it had landed before."""
    is_new = catalog.land(lease, batch)
    reached("land.logged")
    return is_new


@contextmanager
def unless_closed(catalog: Lines, decision: CloseBuckets) -> Iterator[None]:
    """Conflict in place of an error that comes of another driver having closed the buckets.

    Who was frozen while it closed them finds fewer landed files, or some that are gone: once closed
    and trimmed, nothing names them any more.
    """
    try:
        yield
    except (Refused, Unavailable) as error:
        landing, part = decision.landing, decision.range
        for status in catalog.lines():
            is_mine = (status.stream.name, status.producer) == (landing.stream, landing.producer)
            if is_mine and status.boundary_us > part.from_us:
                raise Conflict(
                    f"{landing.stream} {part} was closed by another driver meanwhile: read again "
                    "and decide again"
                ) from error
        raise


def closing_commit(
    decision: CloseBuckets,
    lease: Lease,
    plan: PlanId,
    buckets: Mapping[int, Digest],
    written: tuple[SegmentFile, ...],
    phases_ms: Mapping[str, float],
) -> Commit:
    """The commit that makes the buckets a stable segment of the source's stream (5)."""
    records = sum(digest.rows for digest in buckets.values())
    return Commit(
        lease=lease,
        plan=plan,
        cause=Cause.LANDING,
        segments=(
            OutputSegment(
                stream=decision.landing.stream,
                range=decision.range,
                stability=Stability.STABLE,
                buckets=buckets,
                files=written,
            ),
        ),
        metrics=StepMetrics(records_in=records, records_out=records, phases_ms=phases_ms),
        ends=decision.ends,
    )


def read_landed(
    root: Path, file: SegmentFile, columns: Sequence[Column], stream: StreamName, part: Range
) -> pa.Table:
    """A stream's records in a landed file that are in a range; row groups outside are not read.

    Raises Unavailable if it is gone or damaged.
    """

    def read(path: Path) -> pa.Table:
        with rows_of(path):
            if is_shared(file):
                table = _SHARED.rows_of(path, stream)
                stimes = table[STIME].to_numpy()
                first, end = np.searchsorted(stimes, (part.from_us, part.to_us)).tolist()
                table = table.slice(first, end - first)
            else:
                bounds = (pc.field(STIME) >= part.from_us) & (pc.field(STIME) < part.to_us)
                table = pq.read_table(path, filters=bounds, partitioning=None)
            return table.select([*(c.name for c in columns), STIME]).cast(record_schema(columns))

    check_file(root, file)
    # A copy of an object may have been removed since, to make room.
    return read_file(root, file, read)


def check_counts(
    stream: StreamName,
    buckets: Mapping[int, Digest],
    counts: Mapping[int, int],
    from_us: int,
    to_us: int,
) -> None:
    """Refuse to close buckets that hold other records than were landed."""
    landed = {at: n for at, n in counts.items() if from_us <= at < to_us}
    found = {at: digest.rows for at, digest in buckets.items()}
    if landed != found:
        at = min(set(landed.items()) ^ set(found.items()))[0]
        raise Refused(
            f"bucket {at} of {stream} holds {found.get(at, 0)} records but {landed.get(at, 0)} "
            "were landed: a landed file has been changed; land the input again"
        )
