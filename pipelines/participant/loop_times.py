"""Times that a driver measures around its steps, for which a wait must leave room.

Steps are metered in the catalog. The times before and between them are measured here, in this
process, since its start: how long it takes until it decides, what a step needs besides its
phases, how long a tick keeps the loop from an answer that falls due meanwhile, and how long it
takes until all inputs are available. Nothing is kept over a restart: the next process
measures its own machine.

Inputs that are late, and no more, count among these times too: the bucket was answered without one,
which arrived within the longest wait that the bound allows. Otherwise a fragment whose inputs are
always apart by more than it waits would never learn so, and make every bucket tentative. An input
that arrives later than that has failed, and says nothing about the next bucket.

Limit: the verification of a job is part of none of these times, because it is rare. The answer of
the same job does not wait for it (`pipelines.spark.job_verification`), but an answer of another
fragment that falls due meanwhile does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from medusa_core.bounds import WAIT_SHARE_MAX
from medusa_core.commits import VERIFY, Cause
from medusa_core.decide import ComputeStep, Promote
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
            if isinstance(step, Promote):
                self._note_gathered(step, is_complete=False)
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
            # Corrections share a job: the part that each has says little of the whole.
            if is_first and not done.committed.again and step.cause is not Cause.CORRECTION:
                all_ms = done.committed.committed_at_ms - read_ms
                self._around_ms.appendleft(all_ms - took_ms - verification_ms)
            is_first = False
            if step.cause in (Cause.NORMAL, Cause.CORRECTION):
                self._note_gathered(step, is_complete=step.cause is Cause.NORMAL)

    def _note_gathered(self, step: ComputeStep | Promote, *, is_complete: bool) -> None:
        """How long it took until all inputs of a step were there; of corrections only if the input
        was late and had not failed."""
        gathered = _gathered_ms(step)
        bound = step.fragment.bound
        if gathered is None or bound is None:
            return
        if is_complete or gathered <= bound.bound_ms * WAIT_SHARE_MAX:
            times = self._times.setdefault(step.fragment.fragment.id, _FragmentTimes())
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


def _catches_up(step: ComputeStep | Promote) -> bool:
    """Whether a step makes several buckets at once: what is late already has no bound to keep."""
    return step.range.to_us - step.range.from_us > SINGLE_BUCKETS * step.fragment.width_us


def _gathered_ms(step: ComputeStep | Promote) -> int | None:
    """How long it took until all inputs of a step were there; None if it catches up, or no bound is
    promised."""
    if step.fragment.bound is None or _catches_up(step):
        return None
    return gathered_ms(step.fragment, step.range)
