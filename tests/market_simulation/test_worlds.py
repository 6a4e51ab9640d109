"""Worlds come from a seed alone, and are what their sizes say."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from medusa_core.errors import Refused
from medusa_core.market.costs import marginal_cost_of_adding, marginal_cost_of_removing
from pipelines.simulation.schemes.drawn_worlds import Load, Sizes, draw_graph, make_world
from pipelines.simulation.schemes.worlds import World


def loads_of(world: World) -> list[int]:
    counted = Counter(world.homes)
    return [counted[one] for one in range(world.participants)]


@pytest.mark.parametrize(
    ("participants", "contracts"), [(2, 1), (5, 4), (40, 3), (40, 30), (300, 5)]
)
def test_everybody_has_the_least_number_of_contracts_with_different_partners(
    participants: int, contracts: int
) -> None:
    edges = draw_graph(participants, contracts, Random(7))
    assert len(set(edges)) == len(edges)
    assert all(one < other < participants for one, other in edges)
    degrees = Counter(end for edge in edges for end in edge)
    assert min(degrees[one] for one in range(participants)) >= contracts


@pytest.mark.parametrize("load", Load)
def test_the_total_load_is_the_share_of_all_thresholds_to_the_unit(load: Load) -> None:
    world = make_world(Sizes(participants=101, utilisation=0.95, load=load), 3)
    assert world.initial == len(world.homes) == round(0.95 * 101 * 80)


def test_pareto_loads_are_more_uneven_than_uniform_ones() -> None:
    spread = {
        load: max(loads_of(make_world(Sizes(participants=400, load=load), 5))) for load in Load
    }
    assert spread[Load.PARETO] > 1.5 * spread[Load.UNIFORM]


def test_the_same_seed_gives_the_same_graph_and_loads_at_any_prices() -> None:
    one = make_world(Sizes(participants=90, levels=1), 4)
    other = make_world(Sizes(participants=90, levels=4), 4)
    assert [c[:2] for c in one.contracts] == [c[:2] for c in other.contracts]
    assert one.homes == other.homes
    assert make_world(Sizes(participants=90, levels=1), 5).homes != one.homes


@pytest.mark.parametrize("levels", [0, 1, 2, 4])
def test_at_each_level_who_has_one_unit_more_gives_and_who_has_one_less_takes(levels: int) -> None:
    world = make_world(Sizes(participants=10, contracts=2, levels=levels), 1)
    prices, cost, unit = world.contracts[0].prices, world.costs[0], world.unit
    assert prices.top == levels
    for below in range(levels + 1):
        price, at = float(prices.at(levels - below)), (80 - below) * unit
        assert marginal_cost_of_removing(cost, at + unit, unit) > price * 1.01
        assert marginal_cost_of_removing(cost, at, unit) < price
        assert marginal_cost_of_adding(cost, at, unit) > price
        assert marginal_cost_of_adding(cost, at - unit, unit) < price / 1.01


def test_a_spread_makes_thresholds_and_prices_differ_within_it() -> None:
    world = make_world(Sizes(participants=200, spread=0.2), 6)
    assert len(set(world.thresholds)) > 20
    assert all(64 <= threshold <= 96 for threshold in world.thresholds)
    tops = {float(contract.prices.high) for contract in world.contracts}
    assert len(tops) > 50
    assert all(19.9 <= top <= 30.1 for top in tops)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"participants": 0}, "--participants 0"),
        ({"participants": 10, "contracts": 10}, "--contracts 10"),
        ({"contracts": 0}, "--contracts 0"),
        ({"levels": -1}, "--levels -1"),
        ({"utilisation": 0.0}, "--utilisation 0"),
        ({"utilisation": float("nan")}, "--utilisation nan"),
        ({"utilisation": float("inf")}, "--utilisation inf"),
        ({"fragments": 1}, "--fragments 1"),
        ({"participants": 1_000_000, "fragments": 10_000}, "fewer participants"),
    ],
)
def test_what_makes_no_market_is_refused_by_name(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(Refused, match=said):
        Sizes(**wrong)  # type: ignore[arg-type]
