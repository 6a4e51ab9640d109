"""Workers and placements in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medusa_core.errors import Conflict
from medusa_core.partitions.placing import PlacePartition
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import PlacementRow, WorkerRow
from pipelines.catalog.worker_records import PlacementRecord, WorkerRecord


def report(transaction: Transaction, name: str, row: WorkerRow) -> None:
    """See `Placements.report_worker`."""
    known, now_ms = transaction.lock_row(tables.WORKERS, name), transaction.store.clock.now_ms
    if known and known.holder != row.holder and known.expires_at_ms > now_ms:
        raise Conflict(f"worker {name} runs already as {known.holder}: give this one another name")
    transaction.put(tables.WORKERS, name, row)


def end(transaction: Transaction, name: str, holder: str) -> None:
    """See `Placements.end_worker`."""
    known, now_ms = transaction.lock_row(tables.WORKERS, name), transaction.store.clock.now_ms
    if known and known.holder == holder:
        ends_ms = min(known.expires_at_ms, now_ms)
        transaction.put(tables.WORKERS, name, replace(known, expires_at_ms=ends_ms))


def workers(transaction: Transaction) -> tuple[WorkerRecord, ...]:
    """See `Placements.workers`."""
    now_ms = transaction.store.clock.now_ms
    return tuple(
        WorkerRecord(
            name=name,
            holder=row.holder,
            is_alive=row.expires_at_ms > now_ms,
            busy=row.busy,
            pace=row.pace,
        )
        for name, row in sorted(transaction.rows(tables.WORKERS).items())
    )


def placements(transaction: Transaction) -> tuple[PlacementRecord, ...]:
    """See `Placements.placements`."""
    now_ms = transaction.store.clock.now_ms
    held = {
        key.fragment: row.holder
        for key, row in transaction.rows(tables.LEASES).items()
        if row.expires_at_ms > now_ms and key.lane.value == "live"
    }
    return tuple(
        PlacementRecord(
            fragment=fragment,
            worker=row.worker,
            number=row.number,
            placed_ms=now_ms - row.placed_at_ms,
            because=row.because,
            holder=held.get(fragment),
        )
        for fragment, row in sorted(transaction.rows(tables.PLACEMENTS).items())
    )


def place(transaction: Transaction, decisions: Sequence[PlacePartition], after: int) -> bool:
    """See `Placements.place`."""
    rows = transaction.rows(tables.PLACEMENTS).values()
    if max((row.number for row in rows), default=0) != after:
        return False
    now_ms = transaction.store.clock.now_ms
    for one in decisions:
        row = PlacementRow(one.to_worker, after + 1, now_ms, str(one.because))
        transaction.put(tables.PLACEMENTS, one.fragment, row)
    return True
