"""Samples of load and the declared cost function in the in-memory catalog."""

from __future__ import annotations

from medusa_core.errors import Refused
from medusa_core.loads import LoadSample, Recorded
from medusa_core.market.declared import DeclaredCost
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.store import Table, Transaction

SAMPLES: Table[tuple[str, int], Recorded] = Table("load_sample")
COSTS: Table[int, DeclaredCost] = Table("cost_function")


def record(work: Transaction, sample: LoadSample) -> bool:
    """See `LoadLog.record_load`."""
    if sample.length_ms <= 0:
        raise Refused(f"a period of {sample.length_ms} ms has no load: let it last longer")
    for key in sample.shares.works:
        if work.get(tables.FRAGMENTS, key.fragment) is None:
            raise Refused(f"fragment {key.fragment} is not deployed here: deploy it first")
    if work.get(SAMPLES, (sample.driver, sample.number)) is not None:
        return False
    to_ms = work.store.clock.now_ms - sample.ended_ago_ms
    row = Recorded(from_ms=to_ms - sample.length_ms, to_ms=to_ms, shares=sample.shares)
    work.put(SAMPLES, (sample.driver, sample.number), row)
    return True


def since(work: Transaction, window_ms: int) -> tuple[Recorded, ...]:
    """See `LoadLog.loads_since`."""
    begins_ms = work.store.clock.now_ms - window_ms
    return tuple(row for row in work.rows(SAMPLES).values() if row.to_ms > begins_ms)


def declare(work: Transaction, declared: DeclaredCost) -> None:
    """As its owner does by SQL: the next one takes its place."""
    work.put(COSTS, declared.number, declared)


def declared_cost(work: Transaction) -> DeclaredCost | None:
    """See `LoadLog.declared_cost`."""
    found = work.rows(COSTS)
    return found[max(found)] if found else None
