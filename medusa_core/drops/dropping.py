"""The next step of an overloaded participant: what is kept, what is dropped, and what is lost so.

A bucket is dropped if no window is kept that needs it, or if it would be computed from buckets that
were dropped: no aggregate is made of a part of its records. A run of dropped buckets is committed
without a row and without a job: as tentative, so that it is owed like any answer without an input,
or as a gap where the QoS says so. Where boxes pass records singly, single records are left out of
what a step reads, and its lineage has the rate.

What was dropped is corrected when the load has fallen: the step is the same as any correction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto

from medusa_core.commits import Cause, Commit, Lease, OutputSegment
from medusa_core.decisions import (
    ComputeStep,
    DecisionReason,
    DropBuckets,
    ages_within,
    pieces_of,
)
from medusa_core.drops.overload import Overload, mean_cost
from medusa_core.drops.utility import AfterDrop
from medusa_core.grid import Range
from medusa_core.knowledge import FragmentKnowledge, TentativeKnowledge
from medusa_core.partial import buckets_of
from medusa_core.reads import reads_of, records_of, segments_needed
from medusa_core.segments import Segment, Stability

FIXED_TIMES = 4
"""How many times what a step costs besides its records it may take, at least."""

ALL = 1.0
"""The rate at which nothing is kept."""


class _Fate(Enum):
    """Whether a bucket is computed or dropped, and why."""

    KEPT = auto()
    DROPPED = auto()
    INPUT_DROPPED = auto()
    INPUT_LOST = auto()


def is_dropped(segment: Segment) -> bool:
    """Whether it was dropped as a whole."""
    return segment.drop_rate == ALL and not segment.buckets


def with_drops(
    step: ComputeStep, overload: Overload | None, step_ms_max: int | None = None
) -> ComputeStep | DropBuckets:  # fmt: skip
    """What takes the place of a step at the frontier: the first run of it with one fate.

    `step_ms_max`: how long it may take, at least for one bucket.
    """
    fragment = step.fragment
    if fragment.provider is not None:
        return step
    if step_ms_max is not None:
        step = _within_ms(step, step_ms_max)
    if overload is not None and not overload.is_noticed:
        overload = None
    is_whole = not any(is_dropped(s) for i in fragment.inputs.values() for s in i.segments)
    if overload is not None and overload.by_record and is_whole:
        return _thinned(step, overload)
    if overload is None and is_whole:
        return step
    fate, part = _first_run(step, overload)
    if fate is _Fate.KEPT:
        return step if part == step.range else _cut(step, part)
    return _drop(step, part, fate, overload)


def _within_ms(step: ComputeStep, ms_max: int) -> ComputeStep:
    """As many buckets of a step as are expected to take no longer, at least one.

    Where what a step costs besides its records is a large part of that, it may take some times as
    much as that: many short steps would take longer.
    """
    cost = mean_cost(step.fragment.cost)
    records = records_of(step.fragment, step.outputs, step.range)
    left_ms = max(ms_max, FIXED_TIMES * cost.step_ms) - cost.step_ms
    takes_ms = records * cost.record_us / 1_000
    buckets = (step.range.to_us - step.range.from_us) // step.fragment.width_us
    if buckets <= 1 or takes_ms <= left_ms:
        return step
    fitting = max(int(buckets * left_ms / takes_ms), 1)
    to_us = step.range.from_us + fitting * step.fragment.width_us
    return _cut(step, Range(step.range.from_us, to_us))


def _first_run(step: ComputeStep, overload: Overload | None) -> tuple[_Fate, Range]:
    fates = _fates(step, overload)
    first, bucket = next(fates)
    to_us = bucket.to_us
    for fate, bucket in fates:
        if fate is not first:
            return first, Range(step.range.from_us, to_us)
        to_us = bucket.to_us
    return first, Range(step.range.from_us, to_us)


def _fates(step: ComputeStep, overload: Overload | None) -> Iterator[tuple[_Fate, Range]]:
    fragment = step.fragment
    for bucket in buckets_of(fragment, step.range):
        dropped = [s for s in segments_needed(fragment, bucket) if is_dropped(s)]
        if any(s.stability is Stability.GAP for s in dropped):
            yield _Fate.INPUT_LOST, bucket
        elif dropped:
            yield _Fate.INPUT_DROPPED, bucket
        elif overload is None or overload.is_needed(fragment, bucket):
            yield _Fate.KEPT, bucket
        else:
            yield _Fate.DROPPED, bucket


def _cut(step: ComputeStep, part: Range) -> ComputeStep:
    """The same step over the first part of its range."""
    keeps_content = not step.stability.is_final
    records = records_of(step.fragment, step.outputs, part)
    return replace(
        step,
        range=part,
        because=replace(step.because, numbers={**step.because.numbers, "records": records}),
        reads=tuple(reads_of(step.fragment, step.outputs, part, keeps_content=keeps_content)),
        ages=ages_within(step.ages, part),
        ends=False,
    )


def _drop(
    step: ComputeStep, part: Range, fate: _Fate, overload: Overload | None
) -> DropBuckets:  # fmt: skip
    fragment = step.fragment
    reads = reads_of(fragment, step.outputs, part)
    numbers: dict[str, int | float] = {"records": records_of(fragment, step.outputs, part)}
    if fate is _Fate.DROPPED and overload is not None:
        numbers |= {"share": round(overload.share_of(fragment), 3), **overload.numbers}
        reason = "the load is above the capacity, and no window that is kept needs it"
    else:
        reason = "an input was dropped, and rows without it would be wrong"
    is_lost = fate is _Fate.INPUT_LOST or (fate is _Fate.DROPPED and _is_final(step, overload))
    return DropBuckets(
        fragment=fragment,
        range=part,
        outputs=step.outputs,
        stability=Stability.GAP if is_lost else Stability.TENTATIVE,
        reads=tuple(replace(read, drop_rate=ALL) for read in reads),
        ends=step.ends and part == step.range,
        ages=ages_within(step.ages, part),
        because=DecisionReason(reason, numbers),
    )


def dropping_commit(decision: DropBuckets, lease: Lease) -> Commit:
    """The commit of dropped buckets: no row, and lineage with the rate."""
    return Commit(
        lease=lease,
        plan=decision.fragment.plan,
        cause=decision.cause,
        segments=tuple(
            OutputSegment(
                stream=stream, range=part, stability=decision.stability, fresh_ms=fresh_ms
            )
            for stream in decision.outputs
            for part, fresh_ms in pieces_of(decision.ages, decision.range)
        ),
        lineage=decision.reads,
        ends=decision.ends,
    )


def _is_final(step: ComputeStep, overload: Overload | None) -> bool:
    """Whether what is dropped of the step is dropped for good: all outputs behind it say so."""
    if overload is None:
        return False
    home = overload.home
    behind = home.network.behind[step.fragment.fragment.id]
    return all(home.qos[name].after is AfterDrop.GAP for name in behind if name in home.qos)


def _thinned(step: ComputeStep, overload: Overload) -> ComputeStep:
    """The step over a share of its records, if it is a first one: others read what is left."""
    fragment, share = step.fragment, overload.share_of(step.fragment)
    is_first = not overload.home.written.intersection(fragment.inputs)
    if share >= 1 or not is_first or not step.reads:
        return step
    rate = 1 - share
    reads = reads_of(fragment, step.outputs, step.range, keeps_content=True)
    numbers = {"rate": round(rate, 3), **overload.numbers}
    return replace(
        step,
        reads=tuple(replace(read, drop_rate=rate) for read in reads),
        stability=Stability.TENTATIVE,
        cause=Cause.TENTATIVE,
        because=DecisionReason("the load is above the capacity: records are dropped", numbers),
    )


def without_dropped(
    fragment: FragmentKnowledge, overload: Overload | None
) -> FragmentKnowledge:  # fmt: skip
    """What is owed of a fragment now: in an overload not what was dropped, here or before it."""
    if overload is None or not fragment.tentative:
        return fragment
    kept = tuple(t for t in fragment.tentative if not _waits_for_load(t))
    return fragment if len(kept) == len(fragment.tentative) else replace(fragment, tentative=kept)


def _waits_for_load(tentative: TentativeKnowledge) -> bool:
    return any(read.drop_rate for read in tentative.reads)
