"""Landing: records from outside become a log of files, and closed buckets become segments.

A landed batch is one file sorted by event time, logged once under its key; nothing is promised of
it. Closing a run of buckets, once the source's boundary has passed it, reads the landed files that
overlap it and commits their records as one stable segment. Purity starts at the landed record.
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
from pipelines.base.phase_times import Phases
from pipelines.catalog.processing_roles import LandedFiles, Landing
from pipelines.catalog.reading_roles import Lines
from pipelines.storage.arrow_digests import digests_by_bucket
from pipelines.storage.arrow_schema import STIME, file_schema, record_schema
from pipelines.storage.segment_files import (
    check_file,
    new_attempt,
    rows_of,
    sync_folders,
    write_file,
)
from pipelines.storage.shared_files import SharedFiles, is_shared


class LandedLines(Landing, Lines, Protocol):
    """Where records land, and the lines that they make."""


class ClosedLines(LandedFiles, Lines, Protocol):
    """Landed files, and how far each line has been closed."""


LANDED = "landed"
"""The folder of landed files inside a stream's folder."""

_SHARED = SharedFiles()


def landed_batch(
    root: Path,
    stream: StreamName,
    query_id: str,
    batch_id: int,
    records: pa.Table,
    width_us: int,
    quarantine: Sequence[QuarantinedRecord] = (),
) -> LandedBatch:
    """Write the records as one synced file in event-time order; nothing is logged yet."""
    stimes = records[STIME].to_numpy()
    order = np.argsort(stimes, kind="stable")
    if not bool((stimes[1:] >= stimes[:-1]).all()):
        records, stimes = records.take(order), stimes[order]
    starts, counts = np.unique(stimes - stimes % width_us, return_counts=True)
    file = None
    if records.num_rows:
        file = write_file(root, StreamName(f"{stream}/{LANDED}"), new_attempt(), records)
        sync_folders(root, [file])
    reached("land.written")
    return LandedBatch(
        stream=stream,
        query_id=query_id,
        batch_id=batch_id,
        file=file,
        counts=dict(zip(starts.tolist(), counts.tolist(), strict=True)),
        quarantine=tuple(quarantine),
    )


def log_batch(catalog: Landing, lease: Lease, batch: LandedBatch) -> bool:
    """Log a landed batch; False if it had landed before."""
    is_new = catalog.land(lease, batch)
    reached("land.logged")
    return is_new


def close_buckets(
    decision: CloseBuckets,
    catalog: ClosedLines,
    root: Path,
    columns: Sequence[Column],
    lease: Lease,
    plan: PlanId,
) -> Commit:
    """Write the segment of a run of buckets from the landed files; the commit is not yet made.

    Raises Conflict if another driver has closed them meanwhile, Refused if a landed file has other
    records than were landed, Unavailable if one is gone.
    """
    landing, part = decision.landing, decision.range
    phases = Phases()
    with unless_closed(catalog, decision):
        with phases.phase("read"):
            files = catalog.landed_files(landing.stream, part)
            tables = [read_landed(root, f, columns, landing.stream, part) for f in files]
            table = pa.concat_tables(tables) if tables else record_schema(columns).empty_table()
        with phases.phase("write"):
            stimes = table[STIME].to_numpy()
            starts = stimes - stimes % landing.width_us
            table = pa.table(
                [*table.columns, pa.array(starts, pa.int64())], schema=file_schema(columns)
            )
            if len(tables) > 1:
                order = np.argsort(stimes, kind="stable")
                table, starts = table.take(order), starts[order]
            buckets = digests_by_bucket(table, columns, starts)
            check_counts(landing.stream, buckets, landing.counts, part.from_us, part.to_us)
            written: tuple[SegmentFile, ...] = ()
            if table.num_rows:
                written = (write_file(root, landing.stream, new_attempt(), table),)
    with phases.phase("sync"):
        sync_folders(root, written)
    return closing_commit(decision, lease, plan, buckets, written, phases.ms)


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
    path = check_file(root, file)
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
