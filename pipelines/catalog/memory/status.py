"""Status for people and operators, read from the in-memory catalog: leases, plans, counts."""

from __future__ import annotations

from collections import Counter

from medusa_core.commits import Cause, Lane, Lease
from medusa_core.names import Epoch
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.commit import newest_assignments
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.records import Assignment, LeaseRecord, PlanRecord, QuarantineReason

_LANES = list(Lane)


def leases(transaction: Transaction) -> tuple[LeaseRecord, ...]:
    """See `Leases.leases`."""
    found = [
        LeaseRecord(
            lease=Lease(
                key=key,
                epoch=Epoch(row.epoch),
                holder=row.holder,
                expires_at_ms=row.expires_at_ms,
            ),
            read_at_ms=transaction.store.clock.now_ms,
        )
        for key, row in transaction.rows(tables.LEASES).items()
    ]

    def order(record: LeaseRecord) -> tuple[object, ...]:
        key = record.lease.key
        return (key.fragment, key.partition, key.producer, _LANES.index(key.lane))

    return tuple(sorted(found, key=order))


def assignments(transaction: Transaction) -> tuple[Assignment, ...]:
    """See `Deployments.assignments`."""
    newest, wired = newest_assignments(transaction), transaction.rows(tables.FRAGMENTS)
    return transaction.made_of(
        "assignments",
        (newest, wired),
        lambda: tuple(newest[of] for of in sorted(newest) if not wired[of[0]].is_stopped),
    )


def plans(transaction: Transaction, *, superseded: bool) -> tuple[PlanRecord, ...]:
    """See `Deployments.plans`."""
    found: list[PlanRecord] = []
    lines = (
        transaction.rows(tables.ASSIGNMENTS).values() if superseded else assignments(transaction)
    )
    for plan in {a.plan for a in lines}:
        stored = transaction.get(tables.PLANS, plan)
        assert stored is not None, "an assignment implies its plan"
        network, document = stored
        found.append(PlanRecord(id=plan, network=network, document=document))
    return tuple(sorted(found, key=lambda p: (p.network, p.id)))


def step_counts(transaction: Transaction) -> dict[Cause, int]:
    """See `StepHistory.step_counts`."""
    counts = Counter(row.commit.cause for row in transaction.rows(tables.COMMITS).values())
    return {cause: counts[cause] for cause in Cause if cause in counts}


def quarantine_reasons(transaction: Transaction, limit: int | None) -> tuple[QuarantineReason, ...]:
    """See `Quarantine.quarantine_reasons`."""
    counts = Counter(
        (stream, record.reason)
        for record in transaction.rows(tables.QUARANTINE).values()
        for stream in {record.stream, *record.outputs}
    )
    found = [
        QuarantineReason(stream=stream, reason=reason, records=records)
        for (stream, reason), records in counts.items()
    ]
    return tuple(sorted(found, key=lambda q: (-q.records, q.stream, q.reason))[:limit])
