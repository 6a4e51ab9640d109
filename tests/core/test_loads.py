"""What was spent is dealt out whole: parts add up, none is negative, order does not matter."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medusa_core.commits import Cause
from medusa_core.errors import Refused
from medusa_core.loads import (
    ActivityKind,
    FragmentSpan,
    Load,
    LoadKey,
    RecordedSample,
    Shares,
    Span,
    load_of,
    shares_of,
)
from medusa_core.market.costs import PiecewiseLinear, Queue
from medusa_core.market.declared import DeclaredCost, marginal_costs

HEAVY = LoadKey("net.heavy", 0, Cause.NORMAL)
LIGHT = LoadKey("net.light", 0, Cause.NORMAL)
CORRECTED = LoadKey("net.light", 0, Cause.CORRECTION)

keys = st.builds(
    LoadKey, st.sampled_from(["a", "b", "landing/s"]), st.integers(0, 2), st.sampled_from(Cause)
)
works = st.builds(FragmentSpan, of=keys, weight=st.just(0.0) | st.floats(1e-6, 1e12))
spans = st.builds(
    Span,
    cpu_us=st.integers(0, 10**12),
    fragments=st.lists(works, max_size=5).map(tuple),
    kind=st.sampled_from(ActivityKind),
    delivery_us=st.integers(0, 10**6),
    tick=st.none() | st.integers(0, 3),
)


def test_steps_of_one_job_share_its_cpu_by_their_weight() -> None:
    job = Span(
        cpu_us=1_100,
        fragments=(FragmentSpan(of=HEAVY, weight=10), FragmentSpan(of=LIGHT, weight=1)),
    )
    assert shares_of([job]).by_key == {HEAVY: 1_000, LIGHT: 100}


def test_deciding_belongs_to_the_steps_that_came_of_it_and_else_to_nobody() -> None:
    spans = [
        Span(cpu_us=110, kind=ActivityKind.DECIDING, tick=1),
        Span(cpu_us=1_000, fragments=(FragmentSpan(of=HEAVY),), tick=1),
        Span(cpu_us=100, fragments=(FragmentSpan(of=LIGHT),), tick=1),
        Span(cpu_us=7, kind=ActivityKind.DECIDING, tick=2),
        Span(cpu_us=3, kind=ActivityKind.STARTING, tick=1),
    ]
    shares = shares_of(spans)
    assert shares.by_key == {HEAVY: 1_100, LIGHT: 110}
    assert shares.kinds == {ActivityKind.DECIDING: 7, ActivityKind.STARTING: 3}


def test_what_threads_of_deliveries_spent_meanwhile_is_no_steps() -> None:
    shares = shares_of([Span(cpu_us=100, fragments=(FragmentSpan(of=LIGHT),), delivery_us=30)])
    assert (shares.by_key, shares.kinds) == ({LIGHT: 70}, {ActivityKind.DELIVERY: 30})


def test_nobody_knows_what_idle_time_was_spent_on() -> None:
    assert shares_of([Span(cpu_us=9)]).kinds == {ActivityKind.UNATTRIBUTED: 9}


@given(st.lists(spans, max_size=12))
def test_parts_add_up_to_the_whole_and_none_is_negative(found: list[Span]) -> None:
    shares = shares_of(found)
    assert shares.total_us == sum(span.cpu_us for span in found)
    assert all(part > 0 for part in (*shares.by_key.values(), *shares.kinds.values()))


@given(st.lists(spans, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_spans_and_of_works_does_not_matter(
    found: list[Span], chance: random.Random
) -> None:
    shuffled = [
        Span(
            cpu_us=s.cpu_us,
            fragments=tuple(chance.sample(s.fragments, len(s.fragments))),
            kind=s.kind,
            delivery_us=s.delivery_us,
            tick=s.tick,
        )
        for s in chance.sample(found, len(found))
    ]
    assert shares_of(shuffled) == shares_of(found)


def a_sample(from_s: float, to_s: float, **spent_us: int) -> RecordedSample:
    named = {"heavy": HEAVY, "light": LIGHT, "corrected": CORRECTED}
    shares = Shares(
        by_key={named[n]: us for n, us in spent_us.items() if n in named},
        kinds={ActivityKind(n): us for n, us in spent_us.items() if n not in named},
    )
    return RecordedSample(from_ms=round(from_s * 1_000), to_ms=round(to_s * 1_000), shares=shares)


def test_load_is_cpu_seconds_per_second_over_the_last_minute() -> None:
    samples = [
        a_sample(30, 50, heavy=99_000_000),
        a_sample(40, 70, heavy=30_000_000, unattributed=3_000_000),
        a_sample(70, 100, heavy=0, light=6_000_000),
    ]
    load = load_of(samples[1:], 100_000)
    assert load is not None
    assert (load.by_key, load.window_ms) == ({HEAVY: 0.5, LIGHT: 0.1}, 60_000)
    assert load.kinds == {ActivityKind.UNATTRIBUTED: 0.05}
    halved = load_of([a_sample(30, 50, heavy=4_000_000)], 100_000)
    assert halved is not None
    assert halved.of(HEAVY.fragment) == pytest.approx(0.2)
    assert halved.window_ms == 10_000, "half of it is inside"


def test_a_period_in_which_spark_was_started_is_left_out_once_there_is_a_later_one() -> None:
    start = a_sample(60, 70, heavy=1_420_000, starting=6_000_000)
    first = load_of([start], 70_000)
    assert first is not None
    assert first.of(HEAVY.fragment) == pytest.approx(0.142)
    later = [a_sample(70, 80, heavy=400_000, starting=30), a_sample(80, 90, heavy=400_000)]
    load = load_of([start, *later], 90_000)
    assert load is not None
    assert load.of(HEAVY.fragment) == pytest.approx(0.04)
    assert load.window_ms == 20_000
    other = load_of([start, a_sample(70, 80, light=400_000)], 80_000)
    assert other is not None
    assert other.of(HEAVY.fragment) == pytest.approx(0.071), "it has no later one"


def test_there_is_no_load_where_nothing_was_measured_for_a_minute() -> None:
    assert load_of([], 100_000) is None
    assert load_of([a_sample(0, 40, heavy=1)], 100_000) is None


@given(st.lists(st.tuples(st.integers(0, 90_000), st.integers(1, 90_000), st.integers(0, 10**9)),
                max_size=8))  # fmt: skip
def test_parts_of_a_load_add_up_to_its_total(found: list[tuple[int, int, int]]) -> None:
    samples = [
        RecordedSample(
            from_ms=at,
            to_ms=at + ms,
            shares=Shares(
                by_key={HEAVY: us, CORRECTED: us // 2}, kinds={ActivityKind.STARTING: us}
            ),
        )
        for at, ms, us in found
    ]
    load = load_of(samples, 120_000)
    if load is None:
        return
    parts = load.of("net.heavy") + load.corrections + load.kinds[ActivityKind.STARTING]
    assert parts == pytest.approx(load.total)
    assert load.carried == pytest.approx(load.total - load.corrections)


def test_a_correction_is_metered_apart_and_raises_no_marginal_cost() -> None:
    cost = DeclaredCost(cost=Queue(capacity=2.0), threshold=1.5, currency="EUR")
    plain = Load(window_ms=60_000, by_key={HEAVY: 1.0, LIGHT: 0.1}, kinds={})
    correcting = Load(window_ms=60_000, by_key={HEAVY: 1.0, LIGHT: 0.1, CORRECTED: 0.8}, kinds={})
    assert marginal_costs(cost, correcting) == pytest.approx(marginal_costs(cost, plain))
    assert correcting.of("net.light") == 0.1
    assert correcting.corrections == 0.8


def test_a_marginal_cost_is_a_difference_and_grows_with_what_else_is_carried() -> None:
    cost = DeclaredCost(
        cost=PiecewiseLinear(((0, 0), (1, 1), (2, 4))), threshold=1.5, currency="EUR"
    )
    load = Load(window_ms=60_000, by_key={HEAVY: 1.0, LIGHT: 0.25}, kinds={})
    assert marginal_costs(cost, load) == {("net.heavy", 0): pytest.approx(1.5),
                                          ("net.light", 0): pytest.approx(3.0)}  # fmt: skip


@pytest.mark.parametrize(
    ("threshold", "currency"),
    [(0.0, "EUR"), (float("nan"), "EUR"), (2.5, "EUR"), (1.0, "eur"), (1.0, "ÄÖÜ"), (1.0, "EU1")],
)
def test_what_is_no_threshold_or_currency_is_refused(threshold: float, currency: str) -> None:
    with pytest.raises(Refused):
        DeclaredCost(cost=Queue(capacity=2.0), threshold=threshold, currency=currency)


def test_a_straight_line_is_convex_whatever_its_numbers_are_in_binary() -> None:
    points = tuple((n / 10, 3 * n / 10) for n in range(30))
    assert PiecewiseLinear(points).slope(1.0) == pytest.approx(3.0)


def test_slopes_that_no_number_holds_are_refused() -> None:
    with pytest.raises(Refused, match="too steeply or too little"):
        PiecewiseLinear(((0.0, 0.0), (1e-300, 1e300)))


def test_a_fragment_on_which_nothing_was_spent_has_no_marginal_cost() -> None:
    declared = DeclaredCost(number=1, cost=Queue(1.0), threshold=0.8, currency="EUR")
    load = Load(window_ms=1_000, by_key={HEAVY: 0.5, LIGHT: 0.0, CORRECTED: 0.2}, kinds={})
    assert set(marginal_costs(declared, load)) == {("net.heavy", 0)}


@pytest.mark.parametrize("load", [-0.1, float("inf"), float("nan")])
@pytest.mark.parametrize("cost", [Queue(1.0), PiecewiseLinear(((0.0, 0.0), (1.0, 2.0)))])
def test_only_a_load_from_0_on_has_a_cost(cost: Queue | PiecewiseLinear, load: float) -> None:
    with pytest.raises(ValueError, match="a load of"):
        cost.cost(load)
