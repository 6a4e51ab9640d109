"""Each kind of fault alone, each form of network, and how long L1 lets it take."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from medusa_core.errors import Unavailable
from medusa_core.names import Participant
from pipelines.simulation.faults.liveness import Bound, bound_of
from pipelines.simulation.faults.run_figures import RunFigures
from pipelines.simulation.faults.scenario import draw_scenario
from pipelines.simulation.faults.schedule import run_schedule
from pipelines.simulation.faults.schedule_shapes import WHOLE
from pipelines.simulation.faults.simulated_homes import HomeClock
from pipelines.simulation.faults.simulated_links import Links
from pipelines.simulation.faults.simulated_networks import Form
from pipelines.simulation.faults.world import World
from tests.sweeps import examples, long_but

SEED = 80_000
A, B = Participant("alpha"), Participant("beta")


@pytest.mark.sweep
@pytest.mark.parametrize("kind", long_but(1, ["together", "one way", "slow link", "skew"]))
def test_a_kind_of_fault_alone_happens_breaks_no_law_and_heals(kind: str) -> None:
    shape = replace(WHOLE, kinds=(kind,), kinds_min=1, faults=(4, 6))
    figures = RunFigures(first_seed=SEED, shape=shape)
    schedules = examples(1, 4)
    for seed in range(SEED, SEED + schedules):
        figures.add(run_schedule(seed, shape=shape))
    assert figures.violations == []
    assert figures.faults[kind] >= 4 * schedules
    if kind != "skew":
        assert figures.events["no news"] + figures.events["unavailable"] > 0 or kind == "slow link"


def test_what_is_sent_one_way_is_lost_until_the_last_fault_on_that_way_heals() -> None:
    links = Links()
    links.lose(A, B, until_ms=500)
    links.lose(A, B, until_ms=300)
    assert links.is_lost(A, B, 499)
    assert not links.is_lost(A, B, 500)
    assert not links.is_lost(B, A, 0)
    links.cut(A, B, until_ms=700)
    assert links.is_lost(B, A, 699)


def test_no_notification_arrives_over_a_slow_or_cut_link() -> None:
    links = Links()
    assert links.carries_notification(A, B, 0)
    links.slow_down(B, A, 20, until_ms=100)
    assert (links.factor(A, B, 99), links.factor(A, B, 100)) == (20, 1)
    assert not links.carries_notification(A, B, 99)
    links.lose(A, B, until_ms=300)
    assert not links.carries_notification(A, B, 200)
    assert links.carries_notification(B, A, 200)


def test_a_question_that_reaches_nobody_and_an_answer_that_is_lost_are_both_unavailable() -> None:
    with closing(World(draw_scenario(SEED))) as world:
        one, other = world.scenario.participants[:2]
        world.links.lose(one, other, until_ms=10)
        with pytest.raises(Unavailable, match=f"what {one} sends does not reach {other}"):
            world.check_link(one, other)
        world.check_link(other, one)


def test_a_home_s_clock_jumps_forward_changes_its_pace_and_never_goes_back() -> None:
    now = 0
    clock = HomeClock(5_000, lambda: now)
    seen = [clock.now_ms]
    for at_ms, by_ms, pace in ((1_000, 0, 993), (2_001, 700, 1_007), (2_002, 0, 993)):
        while now < at_ms:
            now += 1
            seen.append(clock.now_ms)
        clock.set_off(by_ms=by_ms, pace_per_mille=pace)
        seen.append(clock.now_ms)
    assert seen == sorted(seen)
    now += 10_000
    assert clock.now_ms - seen[-1] == 9_930


def test_the_bound_of_l1_is_depth_and_chunks_by_share_and_ten() -> None:
    assert Bound(depth=4, owed=23, chunk=5).ticks == 4 + 5 * 10 + 10
    assert str(Bound(depth=2, owed=0, chunk=3)) == "2 + ceil(0 / 3) / 10 % + 10 = 12 ticks"


@pytest.mark.parametrize("form", long_but(2, Form))
def test_a_network_of_every_form_has_four_fragments_and_ends_within_the_bound(form: Form) -> None:
    seed = next(s for s in range(SEED, SEED + 100) if draw_scenario(s).rules.form is form)
    scenario = draw_scenario(seed)
    assert len(scenario.fragments) >= 4
    assert scenario.depth() >= (3 if form is Form.BRANCHES else 4)
    schedule = run_schedule(seed)
    assert schedule.violation is None
    assert 0 < schedule.settled.ticks <= schedule.settled.ticks_max


def test_in_a_diamond_a_stream_reaches_a_fragment_on_two_ways() -> None:
    for form, meeting in ((Form.DIAMOND, "pick"), (Form.WINDOW_DIAMOND, "count")):
        seed = next(s for s in range(SEED, SEED + 100) if draw_scenario(s).rules.form is form)
        fragments = draw_scenario(seed).fragments
        meets = fragments["simulated/meet"]
        assert len(meets.input_streams) == 2
        assert fragments[f"simulated/{meeting}"].outputs.keys() & set(meets.input_streams)


def test_what_is_owed_before_anything_is_computed_is_everything() -> None:
    scenario = draw_scenario(SEED)
    with closing(World(scenario)) as world:
        bound = bound_of(scenario, world.homes)
    assert bound.owed >= scenario.buckets * len(scenario.feeds)
    assert bound.depth == scenario.depth()
