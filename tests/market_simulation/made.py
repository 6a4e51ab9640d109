"""Small markets made by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from medusa_core.market.costs import CostFunction
from pipelines.simulation.schemes.drawn_worlds import UNIT, costs_of, price_range
from pipelines.simulation.schemes.worlds import Contract, Outcome, RoundFigures, World

THRESHOLD = 80


@dataclass(frozen=True, slots=True)
class Deciding:
    """By what a participant decides."""

    cost: CostFunction
    threshold: float


def a_world(
    units: Sequence[int],
    pairs: Iterable[tuple[int, int]],
    *,
    levels: int = 0,
    threshold: int = THRESHOLD,
    both_ways: bool = True,
) -> World:
    """Alike participants with contracts between these pairs, by default in both directions."""
    prices = price_range(threshold, levels)
    contracts = []
    for one, other in pairs:
        contracts.append(Contract(one, other, prices))
        if both_ways:
            contracts.append(Contract(other, one, prices))
    thresholds = [threshold] * len(units)
    return World(
        seed=1,
        unit=UNIT,
        thresholds=thresholds,
        costs=costs_of(thresholds),
        contracts=contracts,
        homes=[home for home, n in enumerate(units) for _ in range(n)],
        initial=sum(units),
    )


def an_outcome(
    units: Sequence[int], excesses: Sequence[int], moves: Sequence[int], scheme: str = "by hand"
) -> Outcome:
    """An outcome with one offer and one answer in each round in which something moves."""
    rounds = zip(excesses, moves, strict=True)
    return Outcome(
        scheme=scheme,
        is_at_rest=True,
        rounds=tuple(
            RoundFigures(e, 100.0 - at, m > 0, m > 0, m) for at, (e, m) in enumerate(rounds)
        ),
        units=tuple(units),
        incomes=(0.0,) * len(units),
        lies_at=(),
        moved=sum(moves),
        flows={},
        cpu_s=0.0,
    )
