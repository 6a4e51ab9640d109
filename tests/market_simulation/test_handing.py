"""What was agreed is handed over in any order of the payers, and nobody takes at a loss (S4)."""

from __future__ import annotations

from itertools import permutations

import pytest

from medusa_core.market.terms import ContractName
from pipelines.simulation.schemes.bounded_price import BoundedPrice
from pipelines.simulation.schemes.course import Course
from pipelines.simulation.schemes.drawn_worlds import Load, Sizes, make_world
from pipelines.simulation.schemes.handing import Agreed, HandingOver
from tests.market_simulation.made import THRESHOLD, Deciding, a_world
from tests.sweeps import long_but

FULL = THRESHOLD - 3
PAID, PASSED_ON, BAND = 19.3, 17.4, 0.004
"""The units up to `FULL` and beyond it cost 16.7, 18.1, 19.8: a relay that is paid so much is full
there, and there alone it pays to hand on."""


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_room_that_was_promised_is_there_whoever_comes_first(order: tuple[int, ...]) -> None:
    """The relay has room for two, and takes two more as two of its own leave."""
    world = a_world((THRESHOLD + 4, FULL - 2, 0), [(0, 1), (1, 2)], levels=1)
    course = Course(world, scheme="by hand")
    course.begin_round()
    given, own = course.carried[0][:4], course.carried[1][:2]
    leaves = [(), (), (own[0],), (own[1],)]
    agreed = {
        fragment: Agreed(0, 1, ContractName("c0"), PAID, leaves[at])
        for at, fragment in enumerate(given)
    }
    agreed |= {leaf: Agreed(1, 2, ContractName("c2"), PASSED_ON, ()) for leaf in own}
    homes = [
        Deciding(cost, n * world.unit)
        for cost, n in zip(world.costs, world.thresholds, strict=True)
    ]
    handing = HandingOver(course, homes, agreed, BAND)
    assert all(handing.hand_over(given[at]) for at in order)
    assert course.violations == []
    assert course.units == [THRESHOLD, FULL, 2]
    assert sorted(fragment for fragment, _ in handing.moved) == sorted([*given, *own])


@pytest.mark.parametrize(
    ("participants", "levels", "load", "seed"),
    long_but(
        2,
        [
            # A relay's room came to be given to two.
            (12, 4, Load.PARETO, 9),
            (20, 2, Load.PARETO, 42),
            (60, 2, Load.PARETO, 40),
            # In one round one took at a low price, and then at a higher one on top of it.
            (20, 4, Load.PARETO, 27),
            (30, 2, Load.UNIFORM, 128),
        ],
    ),
)
def test_nobody_takes_at_a_loss_where_capacities_and_prices_differ(
    participants: int, levels: int, load: Load, seed: int
) -> None:
    sizes = Sizes(
        participants=participants,
        contracts=3,
        levels=levels,
        utilisation=0.95,
        load=load,
        spread=0.3,
    )
    outcome = BoundedPrice().run(make_world(sizes, seed), 2_000)
    assert outcome.is_at_rest
    assert outcome.violations == ()
