"""Late records that wait, in memory, and what a revision that admits them may change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medusa_core.digest import EMPTY, Digest, sum_of
from medusa_core.errors import Conflict, Refused
from medusa_core.fragments import landing_fragment
from medusa_core.grid import floor_us
from medusa_core.late_records import LateBucket, LateRecord
from medusa_core.names import StreamName
from medusa_core.revisions import RevisionRequest
from pipelines.base.foreign_documents import parse_json
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.commit import width_of
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import LateRecordRow, LineRow
from pipelines.catalog.records import BY_REVISION


def late_buckets(
    transaction: Transaction, streams: Sequence[StreamName]
) -> Mapping[StreamName, tuple[LateBucket, ...]]:
    """See `LateRecords.late_buckets`."""
    arrived: dict[StreamName, dict[int, list[int]]] = {}
    for row in transaction.rows(tables.LATE_RECORDS).values():
        if row.stream in streams:
            at_us = floor_us(row.late.stime_us, width_of(transaction, row.stream))
            arrived.setdefault(row.stream, {}).setdefault(at_us, []).append(row.arrived_ms)
    return {
        stream: tuple(
            LateBucket(at_us=at_us, records=len(times), arrived_ms=min(times))
            for at_us, times in sorted(buckets.items())
        )
        for stream, buckets in arrived.items()
    }


def late_records(
    transaction: Transaction, stream: StreamName, buckets: Sequence[int]
) -> tuple[LateRecord, ...]:
    """See `LateRecords.late_records`."""
    width_us, chosen = width_of(transaction, stream), frozenset(buckets)
    return tuple(
        LateRecord(number=number, stime_us=row.late.stime_us, row=row.late.row)
        for number, row in sorted(transaction.rows(tables.LATE_RECORDS).items())
        if row.stream == stream and floor_us(row.late.stime_us, width_us) in chosen
    )


def check_late(transaction: Transaction, line: LineRow, request: RevisionRequest) -> None:
    """Conflict if a late record does not wait, Refused if a bucket changes by anything else."""
    if not _is_declared(transaction, request.stream):
        raise Refused(f"the plan of {request.stream} does not admit late records")
    waiting = [_waiting(transaction, request, number) for number in request.late]
    if len(set(request.late)) < len(waiting):
        raise Refused(f"a revision of {request.stream} names a late record twice")
    width_us = width_of(transaction, request.stream)
    expected: dict[int, Digest] = {
        at_us: digest
        for part in request.ranges
        for row in line.live_over(part)
        for at_us, digest in row.segment.buckets.items()
        if part.holds(at_us)
    }
    for late in waiting:
        at_us = floor_us(late.late.stime_us, width_us)
        expected[at_us] = sum_of((expected.get(at_us, EMPTY), late.late.digest))
    given = {at: d for one in request.segments for at, d in one.segment.buckets.items()}
    if given != expected:
        raise Refused(
            f"a revision of {request.stream} by late records changes something else: add these "
            "alone"
        )


def _is_declared(transaction: Transaction, stream: StreamName) -> bool:
    """Whether the newest plan under which a source is landed says that it revises."""
    log = transaction.rows(tables.ASSIGNMENTS).values()
    mine = [row for row in log if row.fragment == landing_fragment(stream)]
    newest = max(mine, key=lambda row: row.epoch, default=None)
    deployed = None if newest is None else transaction.get(tables.PLANS, newest.plan)
    if newest is None or deployed is None:
        return False
    document = parse_json(deployed[1], f"plan {newest.plan}", "deploy the network again")
    network = document.get("network", {})
    return any(
        (source["name"], source.get("late")) == (stream, "revise")
        for source in network.get("sources", ())
    )


def admit_late(transaction: Transaction, request: RevisionRequest) -> None:
    """Note that late records are in their stream now."""
    for number in request.late:
        transaction.put(tables.RETRIES, number, BY_REVISION)
        transaction.remove(tables.LATE_RECORDS, number)


def _waiting(transaction: Transaction, request: RevisionRequest, number: int) -> LateRecordRow:
    row = transaction.get(tables.LATE_RECORDS, number)
    if row is None or (row.stream, row.producer) != (request.stream, request.producer):
        raise Conflict(f"record {number} of quarantine does not wait any more: read again")
    return row
