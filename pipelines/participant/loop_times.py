"""Times that a driver measures around its steps, for which a wait must leave room.

Steps are metered in the catalog. The times before and between them are measured here, in this
process, since its start: how long it takes until it decides, what a step needs besides its
phases, how long a tick keeps the loop from an answer that falls due meanwhile, and how long it
takes until all inputs are available. Nothing is kept over a restart: the next process
measures its own machine.

Limit: the verification of a job is part of none of these times, because it is rare. The answer of
the same job does not wait for it (`pipelines.spark.job_verification`), but an answer of another
fragment that falls due meanwhile does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from medusa_core.commits import VERIFY, Cause
from medusa_core.decide import ComputeStep
from medusa_core.partial import gathered_ms
from medusa_core.step_costs import (
    OWN_STEPS,
    STEPS_PER_COST,
    Cost,
    MeasuredStep,
    blocked_of,
    gather_of,
    wake_of,
    with_own_steps,
)

if TYPE_CHECKING:
    from pipelines.participant.driver import Applied

SINGLE_BUCKETS = 2
"""Up to how many buckets a step has when a participant is not behind."""

ESTIMATED_EVERY_MS = 1_000
"""How often the estimates of a fragment are made, unless it has made a step meanwhile."""


@dataclass(slots=True)
class _FragmentTimes:
    """The times of one fragment, each with the newest first."""

    steps: deque[MeasuredStep] = field(default_factory=lambda: deque(maxlen=OWN_STEPS))
    ticks_ms: deque[float] = field(default_factory=lambda: deque(maxlen=STEPS_PER_COST))
    gathered_ms: deque[int] = field(default_factory=lambda: deque(maxlen=STEPS_PER_COST))
    own_ms: float = 0.0
    """What its steps took in the last tick."""
    of: Cost | None = None
    estimate: Cost | None = None
    estimated_at_ms: int = 0


class LoopTimes:
    """The times around the steps of one driver's fragments."""

    def __init__(self) -> None:
        self._leads_ms: deque[float] = deque(maxlen=STEPS_PER_COST)
        self._around_ms: deque[float] = deque(maxlen=STEPS_PER_COST)
        self._times: dict[str, _FragmentTimes] = {}
        self._verification_ms = 0.0

    def note_tick(self, tick_ms: float, lead_ms: float) -> None:
        """A tick of the loop begins: how long the last one took, and this one until it decides."""
        self._leads_ms.appendleft(lead_ms)
        for times in self._times.values():
            others_ms = tick_ms - self._verification_ms - times.own_ms
            times.ticks_ms.appendleft(max(others_ms, 0.0))
            times.own_ms = 0.0
        self._verification_ms = 0.0

    def note_steps(self, applied: Iterable[Applied], read_ms: int) -> None:
        """Steps were committed; `read_ms` is when the knowledge was read that they follow from."""
        is_first = True
        for done in applied:
            step = done.decision
            if not isinstance(step, ComputeStep):
                is_first = False  # its time is in that of the steps behind it
                continue
            metrics = done.commit.metrics
            took_ms, verification_ms = metrics.step_ms, metrics.phases_ms.get(VERIFY, 0.0)
            self._verification_ms += verification_ms
            is_tentative = step.cause is Cause.TENTATIVE
            times = self._times.setdefault(step.fragment.fragment.id, _FragmentTimes())
            times.own_ms += took_ms
            times.estimate = None
            if not _catches_up(step):
                times.steps.appendleft(MeasuredStep(took_ms, metrics.records_in, is_tentative))
            if is_first and not done.committed.again:
                all_ms = done.committed.committed_at_ms - read_ms
                self._around_ms.appendleft(all_ms - took_ms - verification_ms)
            is_first = False
            gathered = _gathered_ms(step) if step.cause is Cause.NORMAL else None
            if gathered is not None:
                times.gathered_ms.appendleft(gathered)

    def cost(self, fragment: str, metered: Cost, now_ms: int) -> Cost:
        """What a fragment's steps cost, by what was metered and by what was measured around it."""
        times = self._times.setdefault(fragment, _FragmentTimes())
        is_old = not 0 <= now_ms - times.estimated_at_ms < ESTIMATED_EVERY_MS
        if times.estimate is None or times.of != metered or is_old:
            times.of, times.estimated_at_ms = metered, now_ms
            times.estimate = replace(
                with_own_steps(metered, tuple(times.steps)),
                wake_ms=wake_of(tuple(self._leads_ms), tuple(self._around_ms)),
                blocked_ms=blocked_of(tuple(times.ticks_ms)),
                gather_ms=gather_of(tuple(times.gathered_ms)),
            )
        return times.estimate


def _catches_up(step: ComputeStep) -> bool:
    """Whether a step makes several buckets at once: what is late already has no bound to keep."""
    return step.range.to_us - step.range.from_us > SINGLE_BUCKETS * step.fragment.width_us


def _gathered_ms(step: ComputeStep) -> int | None:
    """How long it took until all inputs of a step were there; None if it catches up, or no bound is
    promised."""
    if step.fragment.bound is None or _catches_up(step):
        return None
    return gathered_ms(step.fragment, step.range)
