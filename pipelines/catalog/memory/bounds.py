"""Bounds, costs and transitions in the in-memory catalog."""

from __future__ import annotations

from dataclasses import replace

from medusa_core.bounds import Bound
from medusa_core.commits import Cause
from medusa_core.drops.utility import Qos
from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.states import State, Transition
from medusa_core.step_costs import STEPS_PER_COST, Cost, MeasuredStep, cost_of
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.choices import VERIFIES
from pipelines.catalog.memory.commit import is_tentative, width_of
from pipelines.catalog.memory.lines import sorted_lines
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.records import DroppedBuckets

_COMPUTED = (Cause.NORMAL, Cause.TENTATIVE, Cause.CORRECTION)


def declare_bound(
    transaction: Transaction, stream: StreamName, bound: Bound | None, lag_ms: int
) -> None:
    """See `Guarantees.declare_bound`."""
    if transaction.get(tables.STREAMS, stream) is None:
        raise Refused(f"stream {stream} is not deployed here: deploy its network first")
    if lag_ms < 0:
        raise Refused(f"stream {stream} has a lag of {lag_ms} ms: give none below 0")
    transaction.put(tables.BOUNDS, stream, (bound, lag_ms))


def bounds(transaction: Transaction) -> dict[StreamName, tuple[Bound | None, int]]:
    """See `Guarantees.bounds`."""
    declared = dict(transaction.rows(tables.BOUNDS))
    promised = (
        *transaction.rows(tables.RETENTIONS),
        *transaction.rows(VERIFIES),
        *transaction.rows(tables.QOS),
    )
    kept: dict[StreamName, tuple[Bound | None, int]] = dict.fromkeys(promised, (None, 0))
    return dict(sorted({**kept, **declared}.items()))


def declare_qos(transaction: Transaction, stream: StreamName, qos: Qos | None) -> None:
    """See `Guarantees.declare_qos`."""
    if transaction.get(tables.STREAMS, stream) is None:
        raise Refused(f"stream {stream} is not deployed here: deploy its network first")
    transaction.put(tables.QOS, stream, qos)


def qos(transaction: Transaction) -> dict[StreamName, Qos]:
    """See `Guarantees.qos`."""
    return {stream: its for stream, its in sorted(transaction.rows(tables.QOS).items()) if its}


def dropped(transaction: Transaction) -> tuple[DroppedBuckets, ...]:
    """See `Guarantees.dropped`."""
    found: list[DroppedBuckets] = []
    for (stream, producer), line in sorted_lines(transaction):
        width_us = width_of(transaction, stream)
        lacking = [
            (r.segment.range, r.segment.drop_rate)
            for r in line.live
            if is_tentative(r) and r.segment.drop_rate
        ]
        counts = [(part.to_us - part.from_us) // width_us for part, _ in lacking]
        if lacking:
            found.append(
                DroppedBuckets(
                    stream=stream,
                    producer=producer,
                    range=Range(lacking[0][0].from_us, lacking[-1][0].to_us),
                    buckets=sum(counts),
                    dropped=sum(n * rate for n, (_, rate) in zip(counts, lacking, strict=True)),
                )
            )
    return tuple(found)


def step_costs(transaction: Transaction) -> dict[str, Cost]:
    """See `Deployments.step_costs`."""
    steps: dict[str, list[MeasuredStep]] = {}
    for row in sorted(transaction.rows(tables.COMMITS).values(), key=lambda r: -r.number):
        commit = row.commit
        mine = steps.setdefault(commit.lease.key.fragment, [])
        has_job = all(read.drop_rate < 1 for read in commit.lineage)
        if commit.cause in _COMPUTED and has_job and len(mine) < STEPS_PER_COST:
            took_ms = commit.metrics.step_ms
            is_tentative = commit.cause is Cause.TENTATIVE
            mine.append(MeasuredStep(took_ms, commit.metrics.records_in, is_tentative))
    return {fragment: cost_of(mine) for fragment, mine in steps.items() if mine}


def record_transition(transaction: Transaction, transition: Transition) -> bool:
    """See `Steps.record_transition`."""
    if transaction.get(tables.FRAGMENTS, transition.fragment) is None:
        raise Refused(f"fragment {transition.fragment} is not deployed here: deploy it first")
    transaction.lock_row(tables.FRAGMENTS, transition.fragment)
    of = (transition.fragment, transition.partition, transition.producer)
    was = State.STABLE
    for _, row in sorted(transaction.rows(tables.TRANSITIONS).items()):
        if (row.fragment, row.partition, row.producer) == of:
            was = row.state
    if was is transition.state:
        return False
    now_ms = transaction.store.clock.now_ms
    transaction.put(
        tables.TRANSITIONS, transaction.next_number(), replace(transition, changed_at_ms=now_ms)
    )
    return True


def states(transaction: Transaction) -> tuple[Transition, ...]:
    """See `StepHistory.states`."""
    rows = sorted(transaction.rows(tables.TRANSITIONS).items())
    newest = {(row.fragment, row.partition, row.producer): row for _, row in rows}
    return tuple(row for _, row in sorted(newest.items(), key=lambda item: item[0]))


def transitions(transaction: Transaction, limit: int | None) -> tuple[Transition, ...]:
    """See `StepHistory.transitions`."""
    found = [row for _, row in sorted(transaction.rows(tables.TRANSITIONS).items())]
    return tuple(found if limit is None else found[len(found) - limit :])
