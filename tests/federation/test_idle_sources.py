"""An idle federation whose last files came at different times: how far apart its sources are.

Two sources with `idle_after: 20s` meet in a Union with a bound of 40 s. The last files held records
up to the same event time, and the right one was moved into its folder 30 s after the left one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from medusa_core.bounds import Bound, wait_ms
from medusa_core.decide import ComputeStep, Promote
from medusa_core.knowledge import FragmentKnowledge, TentativeKnowledge
from medusa_core.lateness import BoundaryRule, LatenessState, next_boundary
from medusa_core.names import Version
from medusa_core.reads import reads_of
from medusa_core.segments import Segment, Stability
from medusa_core.step_costs import Cost
from pipelines.participant.driver import Applied
from pipelines.participant.loop_times import LoopTimes
from tests.core.builders import ALPHA, PLAN, SECOND_US
from tests.core.test_answers import BOTH, LEFT, RIGHT, an_input, came, decided, known

WIDTH_S = 10
IDLE = BoundaryRule(idle_after_us=20 * SECOND_US)
LAST_FILE_S = {LEFT: 1_000, RIGHT: 1_030}
LAST_RECORD_S = 500
BOUND = Bound(bound_ms=40_000)
AT_EASE = Cost(step_ms=300, slow_step_ms=1_000)
BUSY = Cost(step_ms=4_000, slow_step_ms=14_000, wake_ms=1_000)


def boundary_s(last_file_s: int, now_s: int) -> int:
    """What an idle source has promised by that time, as its landing decides it."""
    promised = next_boundary(
        IDLE,
        LatenessState(max_us=LAST_RECORD_S * SECOND_US),
        promised_us=None,
        width_us=WIDTH_S * SECOND_US,
        now_us=now_s * SECOND_US,
        seen_us=last_file_s * SECOND_US,
    )
    assert promised.at_us is not None
    return promised.at_us // SECOND_US


def test_idle_sources_stay_apart_by_as_much_as_their_last_files_came_apart() -> None:
    apart = {
        boundary_s(LAST_FILE_S[LEFT], now_s) - boundary_s(LAST_FILE_S[RIGHT], now_s)
        for now_s in range(1_100, 8_000, 10)
    }
    assert apart == {30}


def test_a_machine_at_ease_waits_that_long_and_a_busy_one_does_not() -> None:
    assert wait_ms(BOUND, AT_EASE, rest_ms=0) > 30_000
    assert wait_ms(BOUND, BUSY, rest_ms=0) < 30_000


@dataclass
class IdleFederation:
    """Both inputs, second by second, and the buckets that were answered without one of them."""

    cost: Cost
    learns: bool

    def run(self, seconds: int) -> list[int]:
        """The event times, in s, of the buckets that became tentative."""
        times = LoopTimes()
        arrived: dict[str, list[Segment]] = {LEFT: [], RIGHT: []}
        tentative: list[TentativeKnowledge] = []
        found: list[int] = []
        begin_s = computed_s = boundary_s(LAST_FILE_S[RIGHT], 1_060)
        for now_s in range(1_060, 1_060 + seconds):
            for stream, segments in arrived.items():
                to_s = segments[-1].range.to_us // SECOND_US if segments else begin_s
                while to_s + WIDTH_S <= boundary_s(LAST_FILE_S[stream], now_s):
                    segments.append(
                        came(cast("Any", stream), to_s, to_s + WIDTH_S, at_ms=now_s * 1_000, rows=0)
                    )
                    to_s += WIDTH_S
            if not all(arrived.values()):
                continue
            cost = self.cost
            fragment = self._known(arrived, computed_s, tuple(tentative), cost)
            if self.learns:
                measured = times.cost(fragment.fragment.id, cost, now_s * 1_000)
                cost = replace(cost, gather_ms=measured.gather_ms)
                fragment = replace(fragment, cost=cost)
            for decision in decided(fragment, now_s * 1_000):
                if isinstance(decision, Promote):
                    gone = {t.segment.range for t in decision.tentative}
                    tentative = [t for t in tentative if t.segment.range not in gone]
                elif isinstance(decision, ComputeStep):
                    computed_s = decision.range.to_us // SECOND_US
                    if decision.missing:
                        found.append(decision.range.from_us // SECOND_US)
                        tentative.append(self._answered(decision, now_s * 1_000))
                else:
                    continue
                times.note_steps([self._applied(decision)], read_ms=now_s * 1_000)
        return found

    @staticmethod
    def _known(
        arrived: dict[str, list[Segment]],
        computed_s: int,
        tentative: tuple[TentativeKnowledge, ...],
        cost: Cost,
    ) -> FragmentKnowledge:
        begin_us = arrived[LEFT][0].range.from_us
        left, right = (
            replace(an_input(name, *arrived[name]), origin_us=begin_us) for name in (LEFT, RIGHT)
        )
        fragment = known(left, right, computed_s=computed_s, bound=BOUND, tentative=tentative)
        return replace(fragment, cost=cost)

    @staticmethod
    def _answered(step: ComputeStep, now_ms: int) -> TentativeKnowledge:
        segment = Segment(
            stream=BOTH, producer=ALPHA, range=step.range, stability=Stability.TENTATIVE,
            version=Version(9), plan=PLAN, missing=step.missing, arrived_ms=now_ms,
        )  # fmt: skip
        reads = tuple(reads_of(step.fragment, (BOTH,), step.range, keeps_content=True))
        return TentativeKnowledge(segment=segment, reads=reads)

    @staticmethod
    def _applied(decision: object) -> Applied:
        metrics = SimpleNamespace(step_ms=300.0, phases_ms={}, records_in=0)
        committed = SimpleNamespace(again=False, committed_at_ms=0)
        done = SimpleNamespace(
            decision=decision, commit=SimpleNamespace(metrics=metrics), committed=committed
        )
        return cast("Applied", done)


@pytest.mark.parametrize(("cost", "is_each"), [(AT_EASE, False), (BUSY, True)])
def test_on_a_busy_machine_alone_each_bucket_would_be_tentative(cost: Cost, is_each: bool) -> None:
    found = IdleFederation(cost, learns=False).run(600)
    assert len(found) == (59 if is_each else 0)


def test_a_busy_machine_learns_to_wait_for_inputs_that_are_late_and_have_not_failed() -> None:
    found = IdleFederation(BUSY, learns=True).run(1_200)
    assert 0 < len(found) <= 20
    assert max(found) - min(found) < 200, "from then on no bucket is tentative"
