"""Figures and laws, on outcomes and states made by hand."""

from __future__ import annotations

import pytest

from pipelines.simulation.schemes.acceptable import (
    acceptance_of,
    is_uniform,
    lemma_violations,
    moves_bound,
)
from pipelines.simulation.schemes.course import Course
from pipelines.simulation.schemes.drawn_worlds import Sizes, make_world
from pipelines.simulation.schemes.measures import figures_of, rounds_to
from tests.market_simulation.made import THRESHOLD, a_world, an_outcome

T = THRESHOLD
LINE = [(0, 1), (1, 2), (2, 3)]


def test_residual_is_what_is_left_of_the_excess_that_fits_somewhere() -> None:
    # 40 too many, of which 10 fit nowhere; 6 of the other 30 are left.
    world = a_world((T + 40, T - 30, T, T), LINE)
    outcome = an_outcome((T + 16, T - 6, T, T), (40, 20, 16), (0, 20, 4))
    figures = figures_of(world, outcome, 0)
    assert figures.avoidable == 30
    assert figures.residual_percent == pytest.approx(20.0)
    assert figures.moves_per_unit == pytest.approx(1.0)


def test_rounds_after_the_last_move_are_counted_neither_as_rounds_nor_by_their_offers() -> None:
    world = a_world((T + 4, T - 4), [(0, 1)])
    outcome = an_outcome((T, T), (4, 2, 0, 0, 0), (0, 2, 2, 0, 0))
    figures = figures_of(world, outcome, 0)
    assert figures.rounds == 2
    assert (figures.offers, figures.answers) == (1.0, 1.0)


def test_rounds_to_a_share_are_those_after_which_it_is_done() -> None:
    outcome = an_outcome((T,), (100, 50, 5, 4, 0), (0, 50, 45, 1, 4))
    assert rounds_to(outcome, 0.5) == 1
    assert rounds_to(outcome, 0.95) == 2
    assert rounds_to(outcome, 0.96) == 3
    assert rounds_to(outcome, 1.0) == 4
    assert rounds_to(an_outcome((T,), (7, 7), (0, 0)), 0.95) == 0


def test_nothing_to_place_leaves_nothing() -> None:
    figures = figures_of(a_world((T, T), [(0, 1)]), an_outcome((T, T), (0,), (0,)), 0)
    assert (figures.residual_percent, figures.moves_per_unit) == (0.0, None)


@pytest.mark.parametrize(
    ("units", "levels", "expected"),
    [
        ((T, T - 5, T - 70, T), 0, "acceptable"),
        ((T + 9, T, T + 1, T), 0, "acceptable"),
        ((T + 1, T - 1, T, T), 0, "not"),
        ((T + 1, T - 1, T, T), 1, "nearly(1)"),
        ((T + 9, T - 2, T, T), 1, "not"),
        ((T + 9, T - 2, T, T), 2, "nearly(2)"),
    ],
)
def test_an_allocation_is_acceptable_nearly_or_not(
    units: tuple[int, ...], levels: int, expected: str
) -> None:
    assert acceptance_of(a_world(units, LINE), units, levels) == expected


def test_room_near_an_overload_breaks_the_lemma_and_room_far_away_does_not() -> None:
    world = a_world((0, 0, 0, 0), LINE, levels=1)
    assert not lemma_violations(world, (T + 1, T, T - 1, 0), 1)
    near = lemma_violations(world, (T + 1, T - 1, T - 1, 0), 1)
    assert len(near) == 1
    assert "participant 1, 1 contracts" in near[0]
    assert "79 units, not 80" in near[0]
    assert "participant 2, 2" in lemma_violations(world, (T + 1, T, T - 2, 0), 1)[0]
    assert not lemma_violations(world, (T, T - 1, T - 2, 0), 1)


def test_contracts_lead_from_the_payer_to_the_provider_only() -> None:
    world = a_world((0, 0), [(1, 0)], both_ways=False)
    assert not lemma_violations(world, (T + 1, 0), 0)
    assert lemma_violations(world, (0, T + 1), 0)


def test_the_theorems_are_asked_of_alike_participants_alone() -> None:
    assert is_uniform(make_world(Sizes(participants=20, levels=4), 1), 4)
    assert not is_uniform(make_world(Sizes(participants=20, levels=4, spread=0.1), 1), 4)
    assert not is_uniform(make_world(Sizes(participants=20, levels=4), 1), 3)


def test_more_moves_than_the_bound_are_reported_of_the_schemes_it_speaks_of() -> None:
    assert moves_bound(10, 4, 0) == 10
    assert moves_bound(10, 4, 2) == 42
    world = a_world((T + 1, T - 1), [(0, 1)])
    too_many = an_outcome((T, T), (1, 0), (0, 2), scheme="plain")
    assert any("3.7.3" in one for one in figures_of(world, too_many, 0).violations)
    enough = an_outcome((T, T), (1, 0), (0, 1), scheme="plain")
    assert not figures_of(world, enough, 0).violations


def course_of(units: tuple[int, ...]) -> Course:
    world = a_world(units, [(0, 1)])
    course = Course(world, scheme="by hand")
    course.begin_round()
    return course


def test_a_move_at_a_price_between_both_marginal_costs_is_lawful() -> None:
    course = course_of((T + 2, T - 2))
    course.move(course.carried[0][-1], 0, 1, 25.0)
    course.check_fall()
    course.end_round(1, 1)
    outcome = course.outcome(is_at_rest=True)
    assert not outcome.violations
    assert outcome.units == (T + 1, T - 1)
    assert outcome.incomes == pytest.approx((-0.25, 0.25))
    assert [one.excess for one in outcome.rounds] == [2, 1]


def test_taking_a_unit_that_costs_more_than_is_paid_breaks_s4() -> None:
    course = course_of((T + 2, T))
    course.move(course.carried[0][-1], 0, 1, 25.0)
    assert "S4: participant 1" in course.violations[0]


def test_paying_more_than_is_saved_is_reported() -> None:
    course = course_of((T - 5, T - 20))
    course.move(course.carried[0][-1], 0, 1, 25.0)
    assert "row 74: participant 0" in course.violations[0]


def test_a_round_that_raises_the_sum_of_costs_is_reported() -> None:
    course = course_of((T - 20, T))
    course.move(course.carried[0][-1], 0, 1, None)
    course.check_fall()
    assert "3.7.1" in course.violations[0]


def test_a_participant_hands_over_only_load_that_it_carries() -> None:
    course = course_of((3, 3))
    with pytest.raises(AssertionError, match="does not lie at 1"):
        course.move(0, 1, 0, None)
