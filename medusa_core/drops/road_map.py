"""The road map of drops: plans with growing savings, computed ahead, each worth as much as can be.

A plan says which share of each output is kept. Plan 0 drops nothing; each further plan saves more
load, and is made from the one before by the move that loses least utility for the load that it
saves: some outputs, those behind a common box or any few, keep no more than a lower share. In an
overload the plan worth most whose load is low enough is in force: the first such plan, or a single
move off an earlier one.

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

    `utility` is the sum over outputs by their loss graphs: 1 for each without a drop. A plan off
    the map has the number of the step that it replaces.
    """

    number: int
    shares: Mapping[str, float]
    load: float
    utility: float
    locations: tuple[DropLocation, ...]

    def __post_init__(self) -> None:
        freeze(self, "shares")

    @property
    def lost(self) -> float:
        """The utility that is lost by its drops."""
        return len(self.shares) - self.utility


def road_map(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], levels: int = LEVELS
) -> tuple[DropPlan, ...]:
    """All plans; `loss` has the graphs of the outputs of which records may be dropped."""
    return tuple(_plans(network, dict(sorted(loss.items())), levels))


def plan_for(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], load_max: float
) -> DropPlan:  # fmt: skip
    """The plan worth most whose load is at most `load_max`: of the road map, or a move off it.

    The first plan of the road map that fits may save far more than is needed, where a graph is not
    concave. So the plans before it are left by any other move that is enough. If nothing is enough,
    it is the last plan.
    """
    graphs = dict(sorted(loss.items()))
    best: DropPlan | None = None
    for plan in _plans(network, graphs, LEVELS):
        if plan.load <= load_max + SAVED_MIN:
            return plan if best is None or plan.utility >= best.utility - PRICE_MIN else best
        for shares in _moves(plan.shares, _sets(network, frozenset(graphs)), LEVELS):
            if network.load_with(shares) > load_max + SAVED_MIN:
                continue
            if best is None or _utility(graphs, shares) > best.utility + PRICE_MIN:
                best = _plan(network, graphs, plan.number + 1, shares)
    return plan if best is None else best


def _moves(
    shares: Mapping[str, float], sets: tuple[frozenset[str], ...], whole: int,
) -> Iterator[dict[str, float]]:  # fmt: skip
    """The shares after each move."""
    levels = {name: round(share * whole) for name, share in shares.items()}
    for names in sets:
        for level in range(max(levels[name] for name in names)):
            yield _shares(
                {n: min(at, level) if n in names else at for n, at in levels.items()}, whole
            )


def _plan(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], number: int,
    shares: Mapping[str, float],
) -> DropPlan:  # fmt: skip
    return DropPlan(
        number=number,
        shares=shares,
        load=network.load_with(shares),
        utility=_utility(loss, shares),
        locations=tuple(drop_locations(network, shares)),
    )


def _utility(loss: Mapping[str, UtilityGraph], shares: Mapping[str, float]) -> float:
    return sum(graph.at(1 - shares[name]) for name, graph in loss.items())


def _plans(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], whole: int
) -> Iterator[DropPlan]:
    shares = dict.fromkeys(loss, 1.0)
    sets = _sets(network, frozenset(loss))
    number = 0
    while True:
        yield _plan(network, loss, number, shares)
        move = _best_move(network, loss, shares, sets, whole)
        if move is None:
            return
        shares, number = move, number + 1


def _shares(levels: Mapping[str, int], whole: int) -> dict[str, float]:
    return {name: level / whole for name, level in levels.items()}


def _best_move(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], shares: Mapping[str, float],
    sets: tuple[frozenset[str], ...], whole: int,
) -> dict[str, float] | None:  # fmt: skip
    """The shares after the move that loses least for what it saves, of equal ones the smallest.

    None if nothing saves more.
    """
    load, utility = network.load_with(shares), _utility(loss, shares)
    best: tuple[float, float, dict[str, float]] | None = None
    for then in _moves(shares, sets, whole):
        saved = load - network.load_with(then)
        if saved <= SAVED_MIN:
            continue
        price = (utility - _utility(loss, then)) / saved
        if best is not None:
            is_dearer = price > best[0] + PRICE_MIN
            is_alike = not is_dearer and price > best[0] - PRICE_MIN
            if is_dearer or (is_alike and saved >= best[1]):
                continue
        best = (price, saved, then)
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
