"""What a driver measures around its steps, and how soon it counts."""

from __future__ import annotations

import pytest

from medusa_core.step_costs import NOT_MEASURED, Cost
from pipelines.participant.loop_times import ESTIMATED_EVERY_MS, LoopTimes
from tests.catalog import building as a
from tests.watching.homes import World

METERED = Cost(step_ms=40)
STEP_MS = 50
"""What the step of `World` takes in all of its phases."""


@pytest.fixture
def world() -> World:
    found = World()
    found.close()
    return found


def test_before_anything_was_measured_the_prior_counts() -> None:
    cost = LoopTimes().cost(a.MAIN, METERED, 0)
    assert (cost.step_ms, cost.slow_step_ms) == (40, 1_000), "1 s for a step that was never made"
    assert (cost.wake_ms, cost.blocked_ms, cost.gather_ms) == (100, 0, 0)
    assert LoopTimes().cost(a.MAIN, NOT_MEASURED, 0).answer_ms == 1_100


def test_a_step_of_this_process_counts_at_once_and_not_only_once_it_is_read_back(
    world: World,
) -> None:
    times = LoopTimes()
    times.cost(a.MAIN, METERED, 0)
    applied = world.compute()
    times.note_steps([applied], read_ms=applied.committed.committed_at_ms - STEP_MS)
    cost = times.cost(a.MAIN, METERED, 1)
    assert cost.slow_step_ms == 1_000, "one step is too few to know"
    times.note_steps(3 * [applied], read_ms=applied.committed.committed_at_ms - STEP_MS)
    assert times.cost(a.MAIN, METERED, 1).slow_step_ms == 2 * STEP_MS, "answers differ from it"


def test_what_a_step_needs_besides_its_phases_is_around_it(world: World) -> None:
    times = LoopTimes()
    applied = world.compute()
    times.note_steps([applied], read_ms=applied.committed.committed_at_ms - STEP_MS - 700)
    assert times.cost(a.MAIN, METERED, 0).wake_ms == 700


def test_of_several_steps_of_a_tick_only_the_first_shows_the_time_around_one(world: World) -> None:
    times = LoopTimes()
    closed, applied = World().close(), world.compute()
    times.note_steps([closed, applied], read_ms=applied.committed.committed_at_ms - 9_000)
    assert times.cost(a.MAIN, METERED, 0).wake_ms == 100, "closing came before it"


def test_time_before_a_decision_counts_in_ticks_without_a_step_too() -> None:
    times = LoopTimes()
    for _ in range(4):
        times.note_tick(tick_ms=0, lead_ms=600)
    assert times.cost(a.MAIN, METERED, 0).wake_ms == 600


def test_a_tick_blocks_an_answer_except_for_the_fragments_own_steps(world: World) -> None:
    times = LoopTimes()
    times.cost(a.MAIN, METERED, 0)
    times.cost(a.TAIL, METERED, 0)
    applied = world.compute()
    for _ in range(4):
        times.note_steps([applied], read_ms=0)
        times.note_tick(tick_ms=STEP_MS + 300, lead_ms=0)
    later_ms = ESTIMATED_EVERY_MS
    assert times.cost(a.MAIN, METERED, later_ms).blocked_ms == 300
    assert times.cost(a.TAIL, METERED, later_ms).blocked_ms == STEP_MS + 300


def test_estimates_are_made_again_every_second_and_when_the_clock_was_set_back() -> None:
    times = LoopTimes()
    times.cost(a.MAIN, METERED, 5_000)
    for _ in range(4):
        times.note_tick(tick_ms=0, lead_ms=600)
    assert times.cost(a.MAIN, METERED, 5_999).wake_ms == 100
    assert times.cost(a.MAIN, METERED, 6_000).wake_ms == 600
    for _ in range(300):
        times.note_tick(tick_ms=0, lead_ms=10)
    assert times.cost(a.MAIN, METERED, 10).wake_ms == 100
    other = Cost(step_ms=2_000)
    assert times.cost(a.MAIN, other, 10).step_ms == 2_000, "what was metered is new"
