"""Worlds from a seed: a random graph of contracts, loads, prices.

Participants are numbered; in random order each draws partners at random until it has the required
number at least (those that others drew count), so none has fewer and most have some more. Each
pair has two contracts, one in each direction. Graph and loads are drawn separately: the same seed
gives the same graph and the same loads, whatever the prices.

A unit of load is one fragment; a participant's threshold is a number of them, at 0.8 of its
capacity (papers: 3.7.6). The top price is the marginal cost at the threshold, the range is that
of k units (3.7.6: delta_k) in k equal steps, so that a level is worth one unit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from enum import Enum
from random import Random

from medusa_core.errors import Refused
from medusa_core.market.costs import CostFunction, Queue
from medusa_core.market.term_rules import PLACES_MAX
from medusa_core.market.terms import PriceRange
from pipelines.simulation.schemes.worlds import Contract, World

UNIT = 0.01
THRESHOLD_OF_CAPACITY = 0.8
PARETO_SHAPE, PARETO_MOST = 1.1, 8.0
"""Loads are up to 8 times the least one before they are scaled: the cut that comes closest to the
figures of papers 3.12, which do not name theirs."""

PARTICIPANTS_MAX, FRAGMENTS_MAX, UTILISATION_MAX = 1_000_000, 10_000, 10.0
UNITS_MAX = 100_000_000


class Load(Enum):
    """How load is spread over participants at first."""

    UNIFORM = "uniform"
    PARETO = "pareto"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a world is made by. `fragments`: how many units a threshold is. `spread`: the greatest
    difference of capacities and of prices from the common one, as a share of it.

    Raises Refused for what makes no market.
    """

    participants: int = 995
    contracts: int = 3
    levels: int = 2
    utilisation: float = 0.95
    load: Load = Load.UNIFORM
    fragments: int = 80
    spread: float = 0.0

    def __post_init__(self) -> None:
        _check_whole("participants", self.participants, 2, PARTICIPANTS_MAX)
        _check_whole("fragments", self.fragments, 2, FRAGMENTS_MAX)
        _check_whole("contracts", self.contracts, 1, self.participants - 1)
        _check_whole("levels", self.levels, 0, min(self.fragments // 2, 100))
        if not (math.isfinite(self.utilisation) and 0 < self.utilisation <= UTILISATION_MAX):
            raise Refused(
                f"--utilisation {self.utilisation}: write a share of all thresholds above 0, "
                f"{UTILISATION_MAX:g} at most"
            )
        if not 0 <= self.spread <= 0.5:
            raise Refused(f"a spread of {self.spread}: write a share from 0 to 0.5")
        if self.participants * self.fragments * self.utilisation > UNITS_MAX:
            raise Refused(f"more than {UNITS_MAX:,} fragments: take fewer participants")


def make_world(sizes: Sizes, seed: int) -> World:
    """The world of a seed."""
    edges = draw_graph(sizes.participants, sizes.contracts, Random(f"graph {seed}"))
    spreading = Random(f"spread {seed}")
    thresholds = [
        _spread(sizes.fragments, sizes.spread, spreading) for _ in range(sizes.participants)
    ]
    units = draw_loads(
        sizes.load, round(sizes.utilisation * sum(thresholds)), sizes, Random(f"load {seed}")
    )
    return World(
        seed=seed,
        unit=UNIT,
        thresholds=thresholds,
        costs=costs_of(thresholds),
        contracts=_contracts(edges, sizes, spreading),
        homes=[home for home, n in enumerate(units) for _ in range(n)],
        initial=sum(units),
    )


def draw_graph(participants: int, contracts_min: int, random: Random) -> list[tuple[int, int]]:
    """Pairs of partners: each participant is in `contracts_min` at least."""
    partners: list[set[int]] = [set() for _ in range(participants)]
    order = list(range(participants))
    random.shuffle(order)
    for one in order:
        if 2 * contracts_min > participants:
            others = [p for p in range(participants) if p != one and p not in partners[one]]
            drawn = random.sample(others, max(contracts_min - len(partners[one]), 0))
            for other in drawn:
                partners[one].add(other)
                partners[other].add(one)
        while len(partners[one]) < contracts_min:
            other = int(random.random() * participants)
            if other != one:
                partners[one].add(other)
                partners[other].add(one)
    return [
        (one, other)
        for one, others in enumerate(partners)
        for other in sorted(others)
        if one < other
    ]


def draw_loads(load: Load, total: int, sizes: Sizes, random: Random) -> list[int]:
    """Whole units for each participant, `total` in all."""
    drawn = [_draw(load, random) for _ in range(sizes.participants)]
    scale = total / sum(drawn)
    units = [int(x * scale) for x in drawn]
    # What rounding down left goes to those who lost most by it.
    lost = sorted(range(len(units)), key=lambda i: units[i] - drawn[i] * scale)
    for participant in lost[: total - sum(units)]:
        units[participant] += 1
    return units


def costs_of(thresholds: Sequence[int]) -> list[CostFunction]:
    """The cost functions by which the marginal cost at each threshold is the same; one object for
    equal thresholds."""
    made: dict[int, CostFunction] = {}
    for threshold in thresholds:
        if threshold not in made:
            capacity = threshold * UNIT / THRESHOLD_OF_CAPACITY
            made[threshold] = Queue(capacity=capacity, scale=capacity)
    return [made[threshold] for threshold in thresholds]


def price_range(fragments: int, levels: int, factor: float = 1.0) -> PriceRange:
    """From the marginal cost k units below the threshold up to that at the threshold, times
    `factor`."""
    cost = costs_of([fragments])[0]
    top = cost.slope(fragments * UNIT)
    low = cost.slope((fragments - levels) * UNIT)
    step = _money((top - low) / levels * factor) if levels else Decimal(1)
    high = _money(top * factor)
    return PriceRange(low=high - levels * step, high=high, step=step)


def _contracts(edges: Sequence[tuple[int, int]], sizes: Sizes, random: Random) -> list[Contract]:
    common = price_range(sizes.fragments, sizes.levels)
    contracts: list[Contract] = []
    for one, other in edges:
        prices = common
        if sizes.spread:
            factor = 1 + random.uniform(-sizes.spread, sizes.spread)
            prices = price_range(sizes.fragments, sizes.levels, factor)
        contracts += (Contract(one, other, prices), Contract(other, one, prices))
    return contracts


def _draw(load: Load, random: Random) -> float:
    match load:
        case Load.UNIFORM:
            return random.random()
        case Load.PARETO:
            least = PARETO_MOST**-PARETO_SHAPE
            return float((1 - random.random() * (1 - least)) ** (-1 / PARETO_SHAPE))


def _spread(threshold: int, spread: float, random: Random) -> int:
    return max(2, round(threshold * (1 + random.uniform(-spread, spread)))) if spread else threshold


def _money(amount: float) -> Decimal:
    return Decimal(amount).quantize(Decimal(1).scaleb(-PLACES_MAX), ROUND_HALF_EVEN)


def _check_whole(name: str, given: int, least: int, most: int) -> None:
    if not least <= given <= most:
        raise Refused(f"--{name} {given}: write a whole number from {least} to {most:,}")
