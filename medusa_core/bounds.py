"""The availability bound X of an output, and how long a fragment may wait for its inputs.

X covers lost inputs: while some input is available, output appears within X of the time at which
it could have been computed. A fragment waits for a missing input until the remaining time, less
the cost of its own step and of the rest of the path, is used up. Time that was spent earlier
counts (the carried age), so the fragments of a chain wait at the same time and not one after the
other (DPC, W).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from medusa_core.errors import Refused
from medusa_core.step_costs import Cost

WAIT_SHARE_MAX = 0.9
"""A fragment never waits for more than this part of the bound: costs are estimates."""

WAIT_SHARE_MIN = 0.1
"""Nor for less than this part: without a wait, inputs that are about to arrive are missed."""

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
                f"a failure of at most {self.failure_ms_max} ms is not possible: declare one "
                "above 0"
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


def wait_ms(bound: Bound, cost: Cost, rest_ms: int) -> int:
    """How long a fragment waits for a missing input, age that was carried to it included.

    `rest_ms` is what the path behind it costs. Where the bound leaves less than inputs usually take
    to be all there, this machine is too busy for it: it waits for them, since answers without
    inputs that are about to arrive would double the work (design 9).
    """
    bound_ms = bound.bound_ms
    least_ms = max(cost.gather_ms, int(bound_ms * WAIT_SHARE_MIN))
    left_ms = max(bound_ms - cost.answer_ms - rest_ms, least_ms)
    return min(left_ms, int(bound_ms * WAIT_SHARE_MAX))


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
