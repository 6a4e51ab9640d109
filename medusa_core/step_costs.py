"""Costs of steps in a home: estimates from the last steps, for planning and for promising.

Two estimates serve two readers. The cost of a path (`path_ms`) is what steps usually take: all
but the slowest hundredth take less. Corrections are planned with it, and it is summed along a
path. The cost of an answer (`answer_ms`) is what a single step without an input may take, with
the bound at stake: it includes the spread of the steps, the work that may occupy the loop when
the answer falls due, and, for kinds of steps that this process has not measured, a prior.

Limit: an estimate is about the machine as it was during the last steps. Load that doubles within
the wait itself is covered by the spread alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

WAKE_MS = 100
"""What a step costs around itself, at least: a timer, the loop's other work, knowledge, commit."""

RECORD_US = 4.0
"""What a record adds to a step, as long as no larger step has been seen."""

STEPS_PER_COST = 256
"""From how many of its last steps it is estimated what a fragment's next one costs."""

FEW_STEPS = 4
"""Of fewer steps the slowest is believed, and the kind of step counts as not measured."""

OWN_STEPS = 128
"""From how many of the last steps of its own process it is estimated what an answer may take: what
an engine took while it was cold is soon forgotten."""

NEWEST_STEPS = 8
"""So many last steps are looked at alone as well: the load may have just begun."""

SPREAD_TIMES = 2.0
"""How far beyond its usual maximum a step may take, in distances of that from the median.

With one distance, one of 200 answers came 2 ms after its bound of 5 s: its step took 976 ms, where
684 were left for it, as other programs started within the wait (`bench headroom`).
"""

SIZES_APART = 1.5
"""From how many times the records on the larger half of steps says what a record costs."""

UNMEASURED_TIMES = 2.0
"""What a step of a kind not yet measured may take, in times of what the measured ones may."""

UNKNOWN_STEP_MS = 500
"""The prior of a step where none has been measured."""

GATHER_TIMES = 2.0
"""How long inputs may usually take to be all there, in times of the median of complete answers.

A median, since a failure that heals within the wait ends with a complete answer as well.
"""


@dataclass(frozen=True, slots=True)
class MeanCost:
    """What a step and a record of it have cost on average: what a load is reckoned by.

    The promises are made with what steps usually take at most, which is more.
    """

    step_ms: float
    record_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a fragment's steps have cost lately; all but the slowest hundredth stay below `step_ms`.

    `record_us`: what one record more adds, in microseconds. `wake_ms`: what a step costs around
    itself. `slow_step_ms`: what a step without an input may take. `blocked_ms`: how long the loop
    is at other work in a tick. `gather_ms`: how long after the first of its inputs the last one
    usually arrives. `mean`: what the load is reckoned by, once it has been measured.
    """

    step_ms: int = UNKNOWN_STEP_MS
    record_us: float = RECORD_US
    wake_ms: int = WAKE_MS
    slow_step_ms: int | None = None
    blocked_ms: int = 0
    gather_ms: int = 0
    mean: MeanCost | None = field(default=None, compare=False)

    @property
    def path_ms(self) -> int:
        """What this fragment adds to a path: waking up, the step, its commit."""
        return self.step_ms + self.wake_ms

    @property
    def answer_step_ms(self) -> int:
        """What the step of an answer may take; as long as any step if nothing is known of it."""
        return self.step_ms if self.slow_step_ms is None else self.slow_step_ms

    @property
    def answer_ms(self) -> int:
        """What an answer may take from when it falls due to its commit."""
        return self.blocked_ms + self.wake_ms + self.answer_step_ms

    def of_ms(self, records: int) -> int:
        """What a step over so many records is expected to take."""
        return self.step_ms + int(records * self.record_us / 1_000)

    def records_within(self, ms: int) -> int:
        """How many records a step may read to be done within a time."""
        return max(int((ms - self.step_ms) * 1_000 / self.record_us), 0)


NOT_MEASURED = Cost(slow_step_ms=int(UNMEASURED_TIMES * UNKNOWN_STEP_MS))
"""The prior of a fragment of which no step has been measured."""


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A step that was made: the milliseconds of its phases, the records that it read, and whether
    it was without an input."""

    ms: float
    records: int
    is_tentative: bool = False


def cost_of(steps: Sequence[MeasuredStep]) -> Cost:
    """The cost of steps like these, the newest first.

    A step's fixed part is what all but the slowest hundredth of the small ones took (and one, the
    first of a process, is always left out); what a record adds is seen in the large ones, by the
    same rule, else guessed.
    """
    if not steps:
        return NOT_MEASURED
    small, median = _small(steps)
    step_ms = max(int(usual_ms([step.ms for step in small])), 1)
    large = [step for step in steps if step.records > 2 * median]
    rates = [max(s.ms - step_ms, 0) * 1_000 / (s.records - median) for s in large]
    record_us = usual_ms(rates) if rates else 0.0
    return Cost(
        step_ms=step_ms,
        record_us=record_us if record_us > 0 else RECORD_US,
        slow_step_ms=max(int(_may_take_ms(steps)), 1),
        mean=mean_of(steps),
    )


def mean_of(steps: Sequence[MeasuredStep]) -> MeanCost:
    """The mean cost of some steps: by the means of the smaller and the larger half.

    Where all are of about one size it is not known what of it is fixed, and all of it is the
    records': steps of this size are what the load is made of.
    """
    ordered = sorted(steps, key=lambda step: step.records)
    halves = ordered[: len(ordered) // 2], ordered[len(ordered) // 2 :]
    (small, small_ms), (large, large_ms) = (
        (
            sum(s.records for s in half) / max(len(half), 1),
            sum(s.ms for s in half) / max(len(half), 1),
        )
        for half in halves
    )
    if small * SIZES_APART < large:
        record_us = max(large_ms - small_ms, 0.0) * 1_000 / (large - small)
        return MeanCost(max(small_ms - small * record_us / 1_000, 0.0), record_us)
    records = sum(step.records for step in steps)
    spent_ms = sum(step.ms for step in steps)
    if not records:
        return MeanCost(spent_ms / len(steps), 0.0)
    return MeanCost(0.0, spent_ms * 1_000 / records)


def with_own_steps(cost: Cost, own: Sequence[MeasuredStep]) -> Cost:
    """The cost with what an answer may take by the steps of this process, the newest first.

    What was metered before may be the steps of an engine that had run for long, or of one that was
    cold; until this one has made a few, its steps are taken for as dear as a kind of step that has
    not been measured.
    """
    slow_ms = _may_take_ms(own) if own else 0.0
    if len(own) < FEW_STEPS:
        slow_ms = max(slow_ms, UNMEASURED_TIMES * max(cost.step_ms, UNKNOWN_STEP_MS))
    return replace(cost, slow_step_ms=max(int(slow_ms), 1))


def _small(steps: Sequence[MeasuredStep]) -> tuple[list[MeasuredStep], int]:
    """The steps of at most twice the median of records, and that median."""
    median = sorted(step.records for step in steps)[len(steps) // 2]
    return [step for step in steps if step.records <= 2 * median], median


def _may_take_ms(steps: Sequence[MeasuredStep]) -> float:
    """What the next step without an input may take: as the dearer kind of step, with its spread."""
    tentative = [step for step in steps if step.is_tentative]
    others = [step for step in steps if not step.is_tentative]
    found_ms = [_with_spread_ms(kind) for kind in (tentative, others) if kind]
    if len(tentative) < FEW_STEPS:
        return UNMEASURED_TIMES * max(found_ms)
    return max(found_ms)


def _with_spread_ms(steps: Sequence[MeasuredStep]) -> float:
    small, _ = _small(steps)
    times_ms = [step.ms for step in small]
    most_ms = recent_ms(times_ms)
    return most_ms + SPREAD_TIMES * (most_ms - _median(times_ms))


def usual_ms(times_ms: Sequence[float]) -> float:
    """What all but the slowest hundredth of some times stay below; at least one is left out, if
    there are enough."""
    slow = max(len(times_ms) // 100, 1) if len(times_ms) >= FEW_STEPS else 0
    return sorted(times_ms)[len(times_ms) - 1 - slow]


def recent_ms(times_ms: Sequence[float]) -> float:
    """The same of times with the newest first, or of the newest alone, if that is more."""
    return max(usual_ms(times_ms), usual_ms(times_ms[:NEWEST_STEPS]))


def wake_of(leads_ms: Sequence[float], around_ms: Sequence[float]) -> int:
    """What steps cost around themselves: what the loop does before it decides (the newest first),
    by the median, and what a step needs besides its phases."""
    lead_ms = 0.0
    if len(leads_ms) >= FEW_STEPS:
        lead_ms = max(_median(leads_ms), _median(leads_ms[:NEWEST_STEPS]))
    return max(WAKE_MS, int(lead_ms + (usual_ms(around_ms) if around_ms else 0.0)))


def blocked_of(ticks_ms: Sequence[float]) -> int:
    """How long the loop is at other work in a tick, by its last ticks, the newest first.

    The first ticks catch up with what came before: a few alone give no estimate.
    """
    return int(recent_ms(ticks_ms)) if len(ticks_ms) >= FEW_STEPS else 0


def _median(times_ms: Sequence[float]) -> float:
    return sorted(times_ms)[len(times_ms) // 2]


def gather_of(times_ms: Sequence[int]) -> int:
    """How long it usually takes until all inputs are there, by the last complete answers."""
    if len(times_ms) < NEWEST_STEPS:
        return 0
    return int(GATHER_TIMES * _median(times_ms))
