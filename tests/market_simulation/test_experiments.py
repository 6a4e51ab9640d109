"""The experiments beside the matrix: changing load, the demonstration, deceit, small markets."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.simulation.schemes.bounded_price import BoundedPrice
from pipelines.simulation.schemes.changing_load import make_changing_world, measure_changing
from pipelines.simulation.schemes.course import Course
from pipelines.simulation.schemes.demo_phases import demo_failures, run_demo
from pipelines.simulation.schemes.drawn_worlds import Load, Sizes, make_world
from pipelines.simulation.schemes.lemmas import lemma_failures, small_sizes
from pipelines.simulation.schemes.measures import figures_of
from pipelines.simulation.schemes.misreporting import measure_misreporting
from pipelines.simulation.schemes.plain_rule import PlainRule
from pipelines.simulation.schemes.worlds import Outcome, Scheme, World
from tests.sweeps import examples, long_but

SMALL = Sizes(participants=60, contracts=5, levels=2, utilisation=0.9)
BOTH = pytest.mark.parametrize("scheme", [PlainRule(), BoundedPrice()], ids=lambda s: s.name)


class Nothing:
    """A scheme that moves nothing."""

    name = "nothing"

    def run(self, world: World, rounds_max: int) -> Outcome:
        """Let everything happen that happens by itself."""
        course = Course(world, scheme=self.name)
        while course.round < world.changes_until:
            course.begin_round()
            course.end_round(0, 0)
        return course.outcome(is_at_rest=True)


@BOTH
def test_the_demonstration_goes_through_its_four_phases(scheme: Scheme) -> None:
    phases = run_demo(scheme)
    assert demo_failures(phases) == []
    assert sum(phases[3].units) == sum(phases[2].units) + 10
    assert max(phases[3].units) <= 80


def test_a_demonstration_in_which_nothing_moves_fails() -> None:
    failures = demo_failures(run_demo(Nothing()))
    assert any(failure.startswith("A overloads: it ended not") for failure in failures)
    assert any("expected was B->C, C->D" in failure for failure in failures)


def test_spikes_come_and_return_and_only_what_is_there_ends() -> None:
    world = make_changing_world(SMALL, 1)
    there = set(range(world.initial))
    for change in world.changes:
        assert not there & set(change.arrived)
        assert set(change.departed) <= there
        there = there - set(change.departed) | set(change.arrived)
    arrived = [fragment for change in world.changes for fragment in change.arrived]
    assert sorted(arrived) == list(range(world.initial, len(world.homes)))
    spikes = [change for change in world.changes if len(change.arrived) >= 40]
    assert len(spikes) >= 5
    outcome = Nothing().run(world, 1_000)
    assert sum(outcome.units) == len(there)


@BOTH
def test_under_changing_load_moves_stay_within_what_the_changes_account_for(scheme: Scheme) -> None:
    measured = measure_changing(SMALL, 1, scheme, 2_000)
    assert measured["is_at_rest"]
    assert measured["is_within_move_bound"]
    assert measured["violations"] == []
    assert measured["moves_after"] > 0


@pytest.mark.long
@BOTH
def test_a_deceiver_gains_no_more_than_the_range_is_wide(scheme: Scheme) -> None:
    measured = measure_misreporting(SMALL, 1, scheme, 2_000)
    assert len(measured) == 12
    assert any(abs(one["gain"]) > 0 for one in measured)  # type: ignore[arg-type]
    for one in measured:
        assert one["gain"] <= one["bound"] + 1e-9, one  # type: ignore[operator]


def test_fragments_of_another_load_than_stated_are_found_out_by_who_runs_them() -> None:
    measured = measure_misreporting(SMALL, 1, PlainRule(), 2_000)
    by = {(one["role"], one["deceit"]): one["found_out"] for one in measured}
    assert by["overloaded", "says its load is half"] > 0  # type: ignore[operator]
    assert by["overloaded", "says its costs are half"] == 0


@pytest.mark.sweep
@BOTH
def test_in_small_markets_every_theorem_holds(scheme: Scheme) -> None:
    assert lemma_failures(0, examples(10, 100), scheme) == []


@pytest.mark.long
@pytest.mark.sweep
@settings(max_examples=examples(12, 400))
@given(st.integers(0, 1_999))
def test_relays_keep_every_law_in_any_small_market(number: int) -> None:
    assert lemma_failures(number, 1, BoundedPrice()) == []


def test_small_markets_are_of_every_kind() -> None:
    sizes = [small_sizes(number) for number in range(200)]
    assert {one.levels for one in sizes} == {0, 1, 2, 3, 4}
    assert {one.load for one in sizes} == set(Load)
    assert min(one.utilisation for one in sizes) < 0.7
    assert max(one.utilisation for one in sizes) > 1


@BOTH
@pytest.mark.parametrize("seed", long_but(1, range(1, 5)))
def test_unlike_participants_come_to_rest_and_nobody_loses(scheme: Scheme, seed: int) -> None:
    world = make_world(replace(SMALL, spread=0.3), seed)
    outcome = scheme.run(world, 1_000)
    assert outcome.is_at_rest
    assert outcome.violations == ()
    figures = figures_of(world, outcome, 2)
    assert figures.cost_after < figures.cost_before
