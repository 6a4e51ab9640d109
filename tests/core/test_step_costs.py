"""What an answer may cost: estimates from measured steps, and what a wait leaves for them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.bound_headroom import headrooms
from medusa_core.bounds import WAIT_SHARE_MAX, WAIT_SHARE_MIN, Bound, wait_ms
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.step_costs import (
    FEW_STEPS,
    NEWEST_STEPS,
    NOT_MEASURED,
    OWN_STEPS,
    STEPS_PER_COST,
    Cost,
    MeasuredStep,
    blocked_of,
    cost_of,
    gather_of,
    wake_of,
    with_own_steps,
)
from tests.core.builders import TOTALS, a_fragment_knowledge, an_input


def steps(*times_ms: float, records: int = 10, tentative: bool = False) -> list[MeasuredStep]:
    return [MeasuredStep(ms, records, tentative) for ms in times_ms]


def may_take_ms(cost: Cost) -> int:
    assert cost.slow_step_ms is not None
    return cost.slow_step_ms


def test_an_answer_takes_what_all_steps_take_if_they_are_all_alike() -> None:
    alike = cost_of([*steps(*[100.0] * 20), *steps(*[100.0] * 20, tentative=True)])
    assert (alike.step_ms, alike.slow_step_ms) == (100, 100)


def test_an_answer_may_take_as_much_longer_as_steps_differ() -> None:
    spread = [100.0] * 30 + [300.0] * 10
    cost = cost_of([*steps(*spread), *steps(*spread, tentative=True)])
    assert cost.step_ms == 300
    assert may_take_ms(cost) == 300 + 2 * (300 - 100), "twice as far as that is from the median"


def test_two_slow_answers_among_many_other_steps_are_no_exception() -> None:
    others = steps(*[100.0] * 240)
    answers = steps(700.0, 700.0, tentative=True)
    cost = cost_of([*others, *answers])
    assert cost.step_ms == 100, "all but the slowest hundredth of all steps"
    assert may_take_ms(cost) == 2 * 700, "few answers, so what they took is not all they may"


def test_a_kind_of_step_that_was_not_measured_may_take_twice_as_long_as_the_others() -> None:
    others = steps(*[400.0] * 20)
    assert may_take_ms(cost_of(others)) == 800
    few = steps(*[400.0] * (FEW_STEPS - 1), tentative=True)
    assert may_take_ms(cost_of([*few, *others])) == 800
    enough = steps(*[400.0] * FEW_STEPS, tentative=True)
    assert may_take_ms(cost_of([*enough, *others])) == 400


def test_a_fragment_without_a_step_has_a_prior() -> None:
    assert cost_of([]) == NOT_MEASURED
    assert NOT_MEASURED.answer_ms == 1_100


def test_load_that_has_just_begun_counts_before_a_hundredth_of_the_steps_are_slow() -> None:
    before = steps(*[100.0] * (STEPS_PER_COST - 2), tentative=True)
    busy = steps(900.0, 900.0, tentative=True)
    assert may_take_ms(cost_of([*busy, *before])) >= 900
    assert may_take_ms(cost_of([*before, *busy])) == 100, "minutes ago, two of 256"


def test_one_slow_step_alone_is_an_exception() -> None:
    usual = steps(*[100.0] * NEWEST_STEPS, tentative=True)
    assert may_take_ms(cost_of([*steps(9_000.0, tentative=True), *usual])) == 100


def test_an_engine_that_has_made_no_step_yet_is_not_as_quick_as_the_one_before_it() -> None:
    warm = cost_of(steps(*[200.0] * 100, tentative=True))
    assert may_take_ms(warm) == 200
    assert may_take_ms(with_own_steps(warm, [])) == 1_000
    few = steps(*[150.0] * (FEW_STEPS - 1), tentative=True)
    assert may_take_ms(with_own_steps(warm, few)) == 1_000
    slow = steps(*[1_500.0] * (FEW_STEPS - 1), tentative=True)
    assert may_take_ms(with_own_steps(warm, slow)) == 3_000, "of few the slowest is believed"


def test_the_steps_of_its_own_process_count_alone_once_there_are_a_few() -> None:
    cold = cost_of(steps(*[3_000.0] * 20))
    own = steps(*[150.0] * FEW_STEPS, tentative=True)
    assert may_take_ms(with_own_steps(cold, own)) == 150
    assert with_own_steps(cold, own).step_ms == cold.step_ms, "what is planned with is metered"


@pytest.mark.parametrize("spread", [0.05, 0.2, 0.4, 0.6])
def test_hardly_an_answer_takes_longer_than_estimated(spread: float) -> None:
    """Steps with the skew that load gives them: at most two of 1,000 exceed the estimate."""
    chance = random.Random(7)

    def times(count: int) -> list[float]:
        return [400 * chance.lognormvariate(0.0, spread) for _ in range(count)]

    slower, judged = 0, 0
    for _ in range(20):
        cost = cost_of(steps(*times(OWN_STEPS), tentative=True))
        slower += sum(ms > may_take_ms(cost) for ms in times(500))
        judged += 500
    assert slower <= judged // 500
    usual = cost_of(steps(*times(OWN_STEPS), tentative=True)).step_ms
    assert usual < may_take_ms(cost) < 3 * usual, "and it is no guess that is always right"


def test_the_work_around_a_step_is_what_the_loop_does_before_it_decides_and_besides_its_phases(
) -> None:  # fmt: skip
    assert wake_of([], []) == 100
    assert wake_of([300.0] * 4, [200.0] * 4) == 500
    assert wake_of([*[600.0] * 8, *[100.0] * 100], []) == 600, "the load has just begun"
    assert wake_of([9_000.0, *[100.0] * 8], []) == 100
    assert wake_of([9_000.0] * (FEW_STEPS - 1), [200.0]) == 200, "the first turns catch up"
    assert blocked_of([9_000.0] * (FEW_STEPS - 1)) == 0
    assert blocked_of([9_000.0, *[400.0] * 9]) == 400


def test_a_short_failure_does_not_count_as_how_long_inputs_take() -> None:
    assert gather_of([200] * (NEWEST_STEPS - 1)) == 0, "too few to know"
    assert gather_of([200] * 20) == 400
    assert gather_of([*[200] * 11, *[4_000] * 9]) == 400


costs = st.builds(
    Cost,
    step_ms=st.integers(1, 20_000),
    wake_ms=st.integers(0, 5_000),
    slow_step_ms=st.none() | st.integers(1, 20_000),
    blocked_ms=st.integers(0, 5_000),
    gather_ms=st.integers(0, 20_000),
)


@given(costs, st.integers(100, 60_000), st.integers(0, 10_000))
def test_a_bound_with_headroom_is_kept_by_an_answer_that_takes_what_it_may(
    cost: Cost, bound_ms: int, rest_ms: int
) -> None:
    """S6 as far as a decision can keep it."""
    bound = Bound(bound_ms=bound_ms)
    waits_ms = wait_ms(bound, cost, rest_ms)
    assert int(WAIT_SHARE_MIN * bound_ms) <= waits_ms <= WAIT_SHARE_MAX * bound_ms
    (found,) = headrooms((promised(cost, bound, rest_ms),))
    assert found.wait_ms == waits_ms
    assert found.is_kept == (cost.gather_ms + cost.answer_ms + rest_ms <= bound_ms)
    least_ms = int(WAIT_SHARE_MIN * bound_ms)
    if found.is_kept and waits_ms > least_ms:
        assert waits_ms + cost.answer_ms + rest_ms <= bound_ms
        assert waits_ms >= min(cost.gather_ms, int(WAIT_SHARE_MAX * bound_ms))


@given(costs, st.integers(1, 5_000))
def test_a_wait_never_grows_with_what_an_answer_takes(cost: Cost, more_ms: int) -> None:
    bound = Bound(bound_ms=10_000)
    for slower in (
        replace(cost, slow_step_ms=(cost.slow_step_ms or cost.step_ms) + more_ms),
        replace(cost, blocked_ms=cost.blocked_ms + more_ms),
        replace(cost, wake_ms=cost.wake_ms + more_ms),
    ):
        assert wait_ms(bound, slower, 0) <= wait_ms(bound, cost, 0)


def test_a_fragment_without_a_bound_has_no_headroom() -> None:
    assert headrooms((a_fragment_knowledge(an_input()),)) == ()


def promised(cost: Cost, bound: Bound, rest_ms: int) -> FragmentKnowledge:
    known = a_fragment_knowledge(an_input())
    output = replace(known.outputs[TOTALS], bound=bound, path_ms=rest_ms)
    return replace(known, cost=cost, outputs={TOTALS: output})
