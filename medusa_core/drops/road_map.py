"""The road map of drops: plans with growing savings, computed ahead, each worth as much as can be.

A plan says which share of each output is kept. Plan 0 drops nothing; each further plan saves more
load, and is made from the one before by the move that loses least utility for the load that it
saves: some outputs, those behind a common box or any few, keep no more than a lower share. In an
overload the first plan is in force whose load is low enough.

Where outputs share no box, and where all loss graphs are concave, no plan with at most the same
load is worth more, on the grid of shares (the tests try all). Where boxes are shared and a graph is
not concave a plan may be worse than the best one, since a move lowers all its outputs to one share:
in 3,000 drawn networks one of a thousand plans was, one of them by a tenth of an output, or more.

Source: the load shedding road map of Aurora and Borealis (gain per cycle saved), with shares of
outputs in place of drop boxes, from which the drop boxes follow (`load_equation.drop_locations`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from medusa_core.drops.load_equation import DropLocation, LoadedNetwork, drop_locations
from medusa_core.drops.utility import UtilityGraph
from medusa_core.frozen import freeze

LEVELS = 20
"""Into how many parts what is kept is divided."""

ALL_SUBSETS_MAX = 4
"""Up to how many outputs every set of them is tried; beyond, those behind a common box."""

SAVED_MIN = 1e-12
"""Below this nothing is saved."""

PRICE_MIN = 1e-9
"""Below this prices are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropPlan:
    """A step of the road map: the share kept of each output, the load that is left, the worth.

    `utility` is the sum over outputs by their loss graphs, `full` what it is without a drop.
    """

    number: int
    shares: Mapping[str, float]
    load: float
    utility: float
    full: float
    locations: tuple[DropLocation, ...]

    def __post_init__(self) -> None:
        freeze(self, "shares")

    @property
    def lost(self) -> float:
        """The utility that is lost by its drops."""
        return self.full - self.utility


def road_map(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], levels: int = LEVELS
) -> tuple[DropPlan, ...]:
    """All plans; `loss` has the graphs of the outputs of which records may be dropped."""
    return tuple(_plans(network, dict(sorted(loss.items())), levels))


def plan_for(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], load_max: float
) -> DropPlan:  # fmt: skip
    """The first plan of the road map whose load is at most `load_max`, else its last one."""
    for plan in _plans(network, dict(sorted(loss.items())), LEVELS):
        if plan.load <= load_max + SAVED_MIN:
            break
    return plan


def _plan(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], number: int,
    shares: Mapping[str, float],
) -> DropPlan:  # fmt: skip
    return DropPlan(
        number=number,
        shares=shares,
        load=network.load_with(shares),
        utility=_utility(loss, shares),
        full=float(len(loss)),
        locations=tuple(drop_locations(network, shares)),
    )


def _utility(loss: Mapping[str, UtilityGraph], shares: Mapping[str, float]) -> float:
    return sum(graph.at(1 - shares[name]) for name, graph in loss.items())


def _plans(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], whole: int
) -> Iterator[DropPlan]:
    levels = dict.fromkeys(loss, whole)
    sets = _sets(network, frozenset(loss))
    number = 0
    while True:
        yield _plan(network, loss, number, _shares(levels, whole))
        move = _best_move(network, loss, levels, sets, whole)
        if move is None:
            return
        levels, number = move, number + 1


def _shares(levels: Mapping[str, int], whole: int) -> dict[str, float]:
    return {name: level / whole for name, level in levels.items()}


def _best_move(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], levels: Mapping[str, int],
    sets: tuple[frozenset[str], ...], whole: int,
) -> dict[str, int] | None:  # fmt: skip
    """The levels after the move that loses least for what it saves, of equal ones the smallest.

    None if nothing saves more.
    """
    shares = _shares(levels, whole)
    load, utility = network.load_with(shares), _utility(loss, shares)
    best: tuple[float, float, dict[str, int]] | None = None
    for names in sets:
        for level in range(max(levels[name] for name in names)):
            lowered = {n: min(at, level) if n in names else at for n, at in levels.items()}
            then = _shares(lowered, whole)
            saved = load - network.load_with(then)
            if saved <= SAVED_MIN:
                continue
            price = (utility - _utility(loss, then)) / saved
            if best is not None:
                is_dearer = price > best[0] + PRICE_MIN
                is_alike = not is_dearer and price > best[0] - PRICE_MIN
                if is_dearer or (is_alike and saved >= best[1]):
                    continue
            best = (price, saved, lowered)
    return None if best is None else best[2]


def _sets(network: LoadedNetwork, outputs: frozenset[str]) -> tuple[frozenset[str], ...]:
    """The sets of outputs that a move lowers together."""
    if len(outputs) <= ALL_SUBSETS_MAX:
        found = {
            frozenset(some)
            for size in range(1, len(outputs) + 1)
            for some in combinations(sorted(outputs), size)
        }
    else:
        found = {frozenset({name}) for name in outputs}
        found |= {behind & outputs for behind in network.behind.values() if behind <= outputs}
    return tuple(sorted((s for s in found if s), key=lambda s: (len(s), sorted(s))))
