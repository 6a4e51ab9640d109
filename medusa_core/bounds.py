"""The availability bound X of an output: what is promised, and how long a fragment may wait.

X is about lost inputs: while some input is there, output appears within X of the time at which it
could have been computed. A fragment waits for what is missing until the time that is left, after
its own step and the rest of the path, is used up; time that was spent before counts (the carried
age), so that a chain of fragments waits at the same time and not one after the other (DPC, W).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from medusa_core.errors import Refused

WAIT_SHARE_MAX = 0.9
"""A fragment never waits for more than this part of the bound: costs are estimates."""

WAKE_MS = 100
"""What a step costs around itself, at least: a timer, the loop's other work, knowledge, commit."""

RECORD_US = 4.0
"""What a record adds to a step, as long as no larger step has been seen."""

STEPS_PER_COST = 256
"""From how many of its last steps it is estimated what a fragment's next one costs."""

FEW_STEPS = 4
"""Of fewer steps the slowest is believed."""

PATH_COSTS_MIN = 2
"""A bound that is not as many times the cost of its path could not be kept."""


class Policy(Enum):
    """What is done with new buckets while an input fails, or while corrections are owed.

    Papers' names: process (block once, then answer at once), delay (block for every bucket),
    suspend (answer nothing until it is over).
    """

    PROCESS = "process"
    DELAY = "delay"
    SUSPEND = "suspend"


_SOONEST_FIRST = tuple(Policy)


def most_eager(policies: Iterable[Policy]) -> Policy:
    """The one of them that answers soonest: they are declared in this order."""
    return min(policies, key=_SOONEST_FIRST.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What is promised of an output: X in ms, and the policies of the two phases of a failure.

    `failure_ms_max` is how long a failure is declared to last at most; suspending needs it.
    Raises Refused, with the figures, for a promise that no run could keep.
    """

    bound_ms: int
    during_failure: Policy = Policy.PROCESS
    during_stabilization: Policy = Policy.PROCESS
    failure_ms_max: int | None = None

    def __post_init__(self) -> None:
        if self.bound_ms <= 0:
            raise Refused(f"a bound of {self.bound_ms} ms can never be kept: declare one above 0")
        if self.failure_ms_max is not None and self.failure_ms_max <= 0:
            raise Refused(
                f"a failure of at most {self.failure_ms_max} ms is none: declare one above 0"
            )
        if Policy.SUSPEND not in (self.during_failure, self.during_stabilization):
            return
        if self.failure_ms_max is None:
            raise Refused(
                "the policy suspend needs failure_max, the longest failure that it is declared for"
            )
        if self.failure_ms_max > self.bound_ms * WAIT_SHARE_MAX:
            raise Refused(
                f"the policy suspend breaks the bound: a failure of {self.failure_ms_max} ms is "
                f"longer than {WAIT_SHARE_MAX:g} of {self.bound_ms} ms; choose process or delay, "
                "or a larger bound"
            )


def strictest(bounds: Iterable[Bound | None]) -> Bound | None:
    """The one bound of outputs that advance together: least X, the most eager policies."""
    found = [bound for bound in bounds if bound is not None]
    if not found:
        return None
    if all(bound == found[0] for bound in found[1:]):
        return found[0]
    failures = [b.failure_ms_max for b in found if b.failure_ms_max is not None]
    return Bound(
        bound_ms=min(b.bound_ms for b in found),
        during_failure=most_eager(b.during_failure for b in found),
        during_stabilization=most_eager(b.during_stabilization for b in found),
        failure_ms_max=min(failures, default=None),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a fragment's steps have cost lately: all but the slowest hundredth stay below `step_ms`.

    `record_us` is what one record more adds, in microseconds; `wake_ms` what a step costs around
    itself.
    """

    step_ms: int = 500
    record_us: float = RECORD_US
    wake_ms: int = WAKE_MS

    @property
    def path_ms(self) -> int:
        """What this fragment adds to a path: waking up, the step, its commit."""
        return self.step_ms + self.wake_ms

    def of_ms(self, records: int) -> int:
        """What a step over so many records is expected to take."""
        return self.step_ms + int(records * self.record_us / 1_000)

    def records_within(self, ms: int) -> int:
        """How many records a step may read to be done within a time."""
        return max(int((ms - self.step_ms) * 1_000 / self.record_us), 0)


def cost_of(steps: Sequence[tuple[float, int]]) -> Cost:
    """The cost of steps like these: each its milliseconds and its records.

    A step's fixed part is what all but the slowest hundredth of the small ones took (and one, the
    first of a process, is always left out); what a record adds is seen in the large ones, by the
    same rule, else guessed.
    """
    if not steps:
        return Cost()
    median = sorted(records for _, records in steps)[len(steps) // 2]
    usual = sorted(ms for ms, records in steps if records <= 2 * median)
    step_ms = max(int(usual[len(usual) - 1 - _slow(len(usual))]), 1)
    large = [(ms, records) for ms, records in steps if records > 2 * median]
    rates = sorted(max(ms - step_ms, 0) * 1_000 / (records - median) for ms, records in large)
    record_us = rates[len(rates) - 1 - _slow(len(rates))] if rates else 0.0
    return Cost(step_ms=step_ms, record_us=record_us if record_us > 0 else RECORD_US)


def wake_of(around_ms: Sequence[float]) -> int:
    """What steps cost around themselves, by what the last of them did: the same rule."""
    usual = sorted(around_ms)
    return max(WAKE_MS, int(usual[len(usual) - 1 - _slow(len(usual))])) if usual else WAKE_MS


def _slow(steps: int) -> int:
    """How many of the slowest are left out: a hundredth, but one at least, if there are enough."""
    return max(steps // 100, 1) if steps >= FEW_STEPS else 0


def wait_ms(bound: Bound, own_ms: int, rest_ms: int) -> int:
    """How long a fragment waits for a missing input, age that was carried to it included."""
    left_ms = bound.bound_ms - own_ms - rest_ms
    return max(min(left_ms, int(bound.bound_ms * WAIT_SHARE_MAX)), 0)


def check_path(output: str, bound: Bound, path_ms: int, width_ms: float) -> None:
    """Refuse a bound below the bucket's width or below twice the cost of its path."""
    if bound.bound_ms < width_ms:
        raise Refused(
            f"output {output} promises {bound.bound_ms} ms, less than its buckets of "
            f"{width_ms:g} ms: declare a larger bound or a smaller bucket"
        )
    if bound.bound_ms < PATH_COSTS_MIN * path_ms:
        raise Refused(
            f"output {output} promises {bound.bound_ms} ms, less than {PATH_COSTS_MIN} x "
            f"{path_ms} ms, what its path costs: declare a larger bound"
        )
