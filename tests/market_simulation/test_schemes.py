"""Each scheme on markets small enough to be worked by hand, or tried out in every way."""

from __future__ import annotations

from collections import deque
from itertools import product
from random import Random

import pytest

from medusa_core.market.costs import Queue
from pipelines.simulation.schemes.auction import AuctionPerTask
from pipelines.simulation.schemes.bounded_price import BoundedPrice
from pipelines.simulation.schemes.course import cost_tables
from pipelines.simulation.schemes.diffusion import Diffusion
from pipelines.simulation.schemes.drawn_worlds import Load, Sizes, make_world, price_range
from pipelines.simulation.schemes.optimum import CentralOptimum, least_cost, parts_of
from pipelines.simulation.schemes.plain_rule import PlainRule
from pipelines.simulation.schemes.random_push import RandomPush
from pipelines.simulation.schemes.scheme_names import NAMES, scheme_named
from pipelines.simulation.schemes.worlds import Contract, Scheme, World
from tests.market_simulation.made import THRESHOLD, a_world
from tests.sweeps import long_but

PRICED = [PlainRule(), BoundedPrice()]


@pytest.mark.parametrize("scheme", PRICED, ids=lambda scheme: scheme.name)
def test_two_tasks_move_between_a_pair_and_the_sum_of_costs_falls_as_worked_by_hand(
    scheme: Scheme,
) -> None:
    """Papers, vector A8: tasks of 0.1 at 0.9 and 0.3, price 10; the third would save 8.3 only."""
    prices = price_range(THRESHOLD, 0, 0.4)
    assert prices.low == 10
    world = World(
        seed=1,
        unit=0.1,
        thresholds=[8, 8],
        costs=[Queue(1.0)] * 2,
        contracts=[Contract(0, 1, prices)],
        homes=[0] * 9 + [1] * 3,
        initial=12,
    )
    outcome = scheme.run(world, 50)
    assert outcome.is_at_rest
    assert outcome.units == (7, 5)
    assert outcome.rounds[0].cost == pytest.approx(9.43, abs=0.005)
    assert outcome.rounds[-1].cost == pytest.approx(3.33, abs=0.005)
    assert outcome.incomes == pytest.approx((-2.0, 2.0))
    assert not outcome.violations


@pytest.mark.parametrize("scheme", PRICED, ids=lambda scheme: scheme.name)
def test_load_passes_a_full_participant_only_where_the_range_has_a_level(scheme: Scheme) -> None:
    """Papers, vector A9: a chain of T+3, T and T-5."""
    chain, units = [(0, 1), (1, 2)], (THRESHOLD + 3, THRESHOLD, THRESHOLD - 5)
    fixed = scheme.run(a_world(units, chain), 200)
    assert fixed.units == units
    ranged = scheme.run(a_world(units, chain, levels=1), 200)
    assert ranged.is_at_rest
    assert ranged.units == (THRESHOLD, THRESHOLD - 1, THRESHOLD - 1)
    assert not ranged.violations


def test_the_plain_rule_asks_one_partner_at_a_time_and_the_next_once_it_is_full() -> None:
    world = a_world((THRESHOLD + 40, THRESHOLD - 30, THRESHOLD - 30), [(0, 1), (0, 2)])
    outcome = PlainRule().run(world, 100)
    assert [one.moves for one in outcome.rounds[1:3]] == [30, 0]
    assert outcome.units == (THRESHOLD, THRESHOLD, THRESHOLD - 20)
    assert outcome.flows == {(0, 1): 30, (0, 2): 10}


def test_an_auction_is_won_by_the_lowest_bid_at_the_second_lowest() -> None:
    world = a_world((THRESHOLD + 1, 40, 20), [(0, 1), (0, 2)])
    outcome = AuctionPerTask().run(world, 100)
    assert outcome.units == (THRESHOLD, 40, 21)
    second = cost_tables(world)[1].adding(40) * world.unit
    assert outcome.incomes == pytest.approx((-second, 0.0, second))
    assert outcome.rounds[1].offers == outcome.rounds[1].answers == 2


def test_who_is_pushed_load_beyond_its_threshold_pushes_it_on() -> None:
    world = a_world((THRESHOLD + 10, THRESHOLD, THRESHOLD - 10), [(0, 1), (1, 2)])
    outcome = RandomPush().run(world, 1_000)
    assert outcome.is_at_rest
    assert outcome.units == (THRESHOLD, THRESHOLD, THRESHOLD)
    assert outcome.flows[1, 2] >= 10


def test_diffusion_evens_out_until_neighbours_differ_by_one_unit_at_most() -> None:
    world = a_world((50, 0, 0, 2), [(0, 1), (1, 2), (2, 3)])
    outcome = Diffusion().run(world, 1_000)
    assert outcome.is_at_rest
    assert sum(outcome.units) == 52
    assert all(
        abs(outcome.units[one] - outcome.units[other]) <= 1
        for one, other in ((0, 1), (1, 2), (2, 3))
    )


def tiny(seed: int) -> World:
    random = Random(seed)
    n = random.randint(2, 4)
    pairs = [pair for pair in product(range(n), repeat=2) if pair[0] != pair[1]]
    chosen = random.sample(pairs, random.randint(1, len(pairs)))
    units = [random.randint(0, 4) for _ in range(n)]
    return a_world(units, chosen, threshold=2, both_ways=False)


@pytest.mark.parametrize("seed", range(40))
def test_the_optimum_is_the_best_of_all_states_that_moves_can_reach(seed: int) -> None:
    world = tiny(seed)
    start = tuple(world.homes.count(one) for one in range(world.participants))
    moves_to = {start: 0}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for payer, provider, _ in world.contracts:
            if state[payer]:
                after = list(state)
                after[payer] -= 1
                after[provider] += 1
                if tuple(after) not in moves_to:
                    moves_to[tuple(after)] = moves_to[state] + 1
                    waiting.append(tuple(after))
    best = min((sum(max(n - 2, 0) for n in state), moves) for state, moves in moves_to.items())
    outcome = CentralOptimum().run(world, 1)
    assert (outcome.rounds[-1].excess, outcome.rounds[-1].moves) == best


@pytest.mark.parametrize("seed", range(12))
def test_the_least_sum_of_costs_is_that_of_the_best_of_all_allocations(seed: int) -> None:
    random = Random(seed)
    thresholds = [random.randint(2, 5) for _ in range(3)]
    total = random.randint(0, 7)
    world = World(
        seed=1,
        unit=0.01,
        thresholds=thresholds,
        costs=[Queue(t / 80, scale=random.uniform(0.5, 2)) for t in thresholds],
        contracts=[],
        homes=[0] * total,
        initial=total,
    )
    tables = cost_tables(world)
    found = min(
        sum(table.at(n) for table, n in zip(tables, spread, strict=True))
        for spread in product(range(total + 1), repeat=3)
        if sum(spread) == total
    )
    assert least_cost(world, (total, 0, 0), connected=True) == pytest.approx(found)
    assert least_cost(world, (total, 0, 0), connected=False) == pytest.approx(tables[0].at(total))
    assert parts_of(world) == [[0], [1], [2]]


@pytest.mark.parametrize("name", long_but(2, NAMES))
def test_every_scheme_gives_the_same_outcome_again_and_keeps_every_fragment(name: str) -> None:
    world = make_world(Sizes(participants=60, load=Load.PARETO), 2)
    once, again = (scheme_named(name).run(world, 400) for _ in range(2))
    assert (once.rounds, once.units, once.incomes) == (again.rounds, again.units, again.incomes)
    assert sum(once.units) == world.initial
    placed = [once.lies_at[fragment] for fragment in range(world.initial)]
    assert [placed.count(one) for one in range(60)] == list(once.units)
    assert sum(once.incomes) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.long
def test_the_plain_rule_leaves_about_what_the_published_table_says() -> None:
    """Papers 3.12 (a mean of two seeds of another program): 28.4, 6.5, 0.8 and 0 %."""
    left = {}
    for levels in (0, 1, 2, 4):
        world = make_world(Sizes(levels=levels), 1)
        outcome = PlainRule().run(world, 5_000)
        assert outcome.is_at_rest
        assert not outcome.violations
        left[levels] = 100 * outcome.rounds[-1].excess / outcome.rounds[0].excess
    assert 22 < left[0] < 36
    assert 4 < left[1] < 14
    assert 0.2 < left[2] < 4
    assert left[4] < 0.1
