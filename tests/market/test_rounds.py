"""Rounds of the decisions, until rest: worked vectors, and the theorems of bounded prices.

`Course` checks each move of a round against both sides' true costs (law S4, and that nobody's
utility falls) and each round against the fall of the sum of costs; what it found is in
`violations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medusa_core.market.costs import CostFunction, PiecewiseLinear, Queue
from medusa_core.market.terms import PriceRange
from pipelines.simulation.schemes.bounded_price import BoundedPrice
from pipelines.simulation.schemes.drawn_worlds import costs_of, price_range
from pipelines.simulation.schemes.worlds import Change, Contract, Outcome, World
from tests.sweeps import examples

T = 20
ROUNDS_MAX = 400


def a_world(
    units: Sequence[int],
    contracts: Sequence[Contract],
    *,
    thresholds: Sequence[int] | None = None,
    costs: Sequence[CostFunction] | None = None,
    unit: float = 0.01,
    changes: tuple[Change, ...] = (),
    arriving: Sequence[int] = (),
) -> World:
    thresholds = thresholds or [T] * len(units)
    homes = [home for home, n in enumerate(units) for _ in range(n)]
    return World(
        seed=1,
        unit=unit,
        thresholds=thresholds,
        costs=costs or costs_of(thresholds),
        contracts=contracts,
        homes=[*homes, *arriving],
        initial=len(homes),
        changes=changes,
    )


def both_ways(pairs: Sequence[tuple[int, int]], prices: PriceRange) -> list[Contract]:
    return [
        Contract(*ends, prices) for one, other in pairs for ends in ((one, other), (other, one))
    ]


def even() -> CostFunction:
    """The n-th unit costs n a unit of load: marginal costs in equal steps, as levels are."""
    costs = [0.0]
    for number in range(1, 4 * T):
        costs.append(costs[-1] + 0.01 * number)
    return PiecewiseLinear(tuple((0.01 * n, cost) for n, cost in enumerate(costs)))


def even_prices(levels: int) -> PriceRange:
    """A level is worth one unit; the highest lies between those at the threshold."""
    half = Decimal("0.5")
    return PriceRange(low=T - levels + half, high=T + half, step=Decimal(1))


def alike(units: Sequence[int], pairs: Sequence[tuple[int, int]], levels: int) -> World:
    contracts = both_ways(pairs, even_prices(levels))
    return a_world(units, contracts, costs=[even()] * len(units))


def played(world: World) -> Outcome:
    outcome = BoundedPrice().run(world, ROUNDS_MAX)
    assert outcome.is_at_rest
    assert outcome.violations == ()
    return outcome


def moves(outcome: Outcome) -> int:
    return sum(figures.moves for figures in outcome.rounds)


def test_a_pair_comes_to_rest_after_the_two_moves_that_pay() -> None:
    ten = PriceRange(low=Decimal(10), high=Decimal(10), step=Decimal(1))
    world = a_world(
        [9, 3], [Contract(0, 1, ten)], thresholds=[9, 9], costs=[Queue(1.0), Queue(1.0)], unit=0.1
    )
    outcome = played(world)
    assert (outcome.units, moves(outcome)) == ((7, 5), 2)
    assert round(outcome.rounds[0].cost, 2) == 9.43
    assert round(outcome.rounds[-1].cost, 2) == 3.33


def test_a_full_partner_relays_within_a_range_and_cannot_at_a_fixed_price() -> None:
    def rest(levels: int) -> tuple[int, ...]:
        chain = [(0, 1), (1, 2)]
        return played(a_world([T + 3, T, T - 5], both_ways(chain, price_range(T, levels)))).units

    assert rest(0) == (T + 3, T, T - 5)
    assert rest(1) == (T, T - 1, T - 1)


def test_a_wider_range_relays_over_more_full_partners() -> None:
    chain = [(0, 1), (1, 2), (2, 3), (3, 4)]

    def excess(levels: int) -> int:
        units = [T + 4, T, T, T, T - 12]
        rest = played(alike(units, chain, levels)).units
        return sum(max(n - T, 0) for n in rest)

    assert [excess(levels) for levels in (0, 1, 2)] == [4, 4, 4]
    assert [excess(levels) for levels in (3, 4)] == [0, 0]


def test_many_units_pass_a_full_partner_at_once() -> None:
    chain = [(0, 1), (1, 2)]
    outcome = played(a_world([T + 12, T, T - 15], both_ways(chain, price_range(T, 1))))
    assert outcome.rounds[-1].excess == 0
    # One by one it would take twelve rounds and more.
    assert len(outcome.rounds) - 1 < 12


def test_a_cheaper_partner_draws_load_through_the_chain_until_all_is_acceptable() -> None:
    a, b, c, d = range(4)
    usual = price_range(T, 1)
    cheap = price_range(T, 1, 0.8)
    first = Change(round=5, arrived=tuple(range(2 * T + 10, 2 * T + 22)))
    later = Change(round=15, arrived=tuple(range(2 * T + 22, 2 * T + 30)))
    world = a_world(
        [T - 4, T - 4, T - 4, 22],
        [*both_ways([(a, b), (a, c), (b, c)], usual), Contract(c, d, cheap)],
        thresholds=[T, T, T, 4 * T],
        changes=(first, later),
        arriving=[a] * 12 + [b] * 8,
    )
    outcome = played(world)
    assert outcome.rounds[4].excess == 0
    assert all(n <= most for n, most in zip(outcome.units, world.thresholds, strict=True))
    assert outcome.units[d] > 22


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int, int]]:
    n = draw(st.integers(2, 7))
    chain = [(one, one + 1) for one in range(n - 1)]
    more = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=8))
    return sorted({(min(pair), max(pair)) for pair in [*chain, *more] if pair[0] != pair[1]})


@settings(deadline=None, max_examples=40)
@given(graphs(), st.integers(0, 4), st.data())
def test_alike_participants_come_to_rest_within_the_bounds(
    pairs: list[tuple[int, int]], levels: int, data: st.DataObject
) -> None:
    n = 1 + max(other for _, other in pairs)
    units = data.draw(st.lists(st.integers(0, 2 * T), min_size=n, max_size=n))
    outcome = played(alike(units, pairs, levels))
    excess = sum(max(one - T, 0) for one in units)
    assert moves(outcome) <= (levels + 1) * excess + n * levels * (levels + 1) // 2
    assert sum(outcome.units) == sum(units)
    assert_nearly_acceptable(outcome.units, pairs, levels)


def assert_nearly_acceptable(
    units: Sequence[int], pairs: Sequence[tuple[int, int]], levels: int
) -> None:
    """Whatever lies within `levels` + 1 contracts of an overload is full, but for its distance."""
    for start, load in enumerate(units):
        near, reached = {start}, {start}
        for distance in range(1, levels + 2 if load > T else 0):
            near = {
                other
                for pair in pairs
                for one, other in (pair, pair[::-1])
                if one in near and other not in reached
            }
            reached |= near
            assert all(units[one] >= T - distance + 1 for one in near), (start, distance, units)


@st.composite
def costs(draw: st.DrawFn) -> CostFunction:
    if draw(st.booleans()):
        return Queue(draw(st.floats(0.2, 0.8)), draw(st.floats(0.1, 3.0)))
    slopes = sorted(draw(st.lists(st.floats(0.5, 60.0), min_size=1, max_size=5, unique=True)))
    points = [(0.0, 0.0)]
    for slope in slopes:
        points.append((points[-1][0] + 0.08, points[-1][1] + 0.08 * slope))
    return PiecewiseLinear(tuple(points))


@st.composite
def prices(draw: st.DrawFn) -> PriceRange:
    low, step = draw(st.integers(100, 3_000)), draw(st.integers(1, 300))
    levels = draw(st.integers(0, 4))
    cents = Decimal("0.01")
    return PriceRange(low=low * cents, high=(low + levels * step) * cents, step=step * cents)


@pytest.mark.sweep
@settings(deadline=None, max_examples=examples(20, 60))
@given(graphs(), st.data())
def test_unlike_participants_come_to_rest_and_nobody_loses(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    n = 1 + max(other for _, other in pairs)
    contracts = [
        Contract(*ends, data.draw(prices()))
        for one, other in pairs
        for ends in ((one, other), (other, one))
    ]
    units = data.draw(st.lists(st.integers(0, 40), min_size=n, max_size=n))
    world = a_world(
        units,
        contracts,
        thresholds=data.draw(st.lists(st.integers(5, 30), min_size=n, max_size=n)),
        costs=data.draw(st.lists(costs(), min_size=n, max_size=n)),
    )
    outcome = BoundedPrice().run(world, ROUNDS_MAX)
    assert outcome.is_at_rest
    # Beyond its capacity a participant pays whatever is asked: no theorem speaks of that.
    total = any(
        isinstance(cost, Queue) and load * world.unit >= cost.capacity
        for cost, load in zip(world.costs, units, strict=True)
    )
    if not total:
        assert outcome.violations == ()
        for before, after, cost, income in zip(
            units, outcome.units, world.costs, outcome.incomes, strict=True
        ):
            gain = cost.cost(before * world.unit) - cost.cost(after * world.unit) + income
            assert gain >= -1e-9
