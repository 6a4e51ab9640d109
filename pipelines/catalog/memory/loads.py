"""Samples of load and the declared cost function in the in-memory catalog."""

from __future__ import annotations

from medusa_core.errors import Refused
from medusa_core.loads import LoadSample, RecordedSample
from medusa_core.market.declared import DeclaredCost
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.store import Table, Transaction

SAMPLES: Table[tuple[str, int], RecordedSample] = Table("load_sample")
COSTS: Table[int, DeclaredCost] = Table("cost_function")


def record(transaction: Transaction, sample: LoadSample) -> bool:
    """See `LoadLog.record_load`."""
    if sample.length_ms <= 0:
        raise Refused(f"a period of {sample.length_ms} ms has no load: let it last longer")
    for key in sample.shares.by_key:
        if transaction.get(tables.FRAGMENTS, key.fragment) is None:
            raise Refused(f"fragment {key.fragment} is not deployed here: deploy it first")
    if transaction.get(SAMPLES, (sample.driver, sample.number)) is not None:
        return False
    to_ms = transaction.store.clock.now_ms - sample.ended_ago_ms
    row = RecordedSample(from_ms=to_ms - sample.length_ms, to_ms=to_ms, shares=sample.shares)
    transaction.put(SAMPLES, (sample.driver, sample.number), row)
    return True


def since(transaction: Transaction, window_ms: int) -> tuple[RecordedSample, ...]:
    """See `LoadLog.loads_since`."""
    begins_ms = transaction.store.clock.now_ms - window_ms
    return tuple(row for row in transaction.rows(SAMPLES).values() if row.to_ms > begins_ms)


def declare(transaction: Transaction, declared: DeclaredCost) -> None:
    """As its owner does by SQL: the next one takes its place."""
    transaction.put(COSTS, declared.number, declared)


def declared_cost(transaction: Transaction) -> DeclaredCost | None:
    """See `LoadLog.declared_cost`."""
    found = transaction.rows(COSTS)
    return found[max(found)] if found else None
