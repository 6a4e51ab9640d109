"""One plan of drops for a network whose boxes run in several homes, by linear programming.

Each home has a capacity of its own, and what is dropped at the first of them is not there for the
others. The shares kept of the outputs are chosen together: the utility is as large as can be while
the load of each home is within its capacity. A box is needed for as much as any output behind it
keeps, which is linear; a loss graph that is not concave is replaced by its concave hull, so that
the plan may then promise more than it gives.

Source: the distributed load shedding of Borealis, which solves such a program for the drop rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.optimize import linprog

from medusa_core.drops.load_equation import LoadedNetwork
from medusa_core.drops.utility import Point, UtilityGraph
from medusa_core.errors import Refused


@dataclass(frozen=True, slots=True, kw_only=True)
class HomesPlan:
    """The shares kept of the outputs, the load that is left in each home, the utility lost."""

    shares: Mapping[str, float]
    loads: Mapping[str, float]
    lost: float


def plan_over_homes(
    network: LoadedNetwork, loss: Mapping[str, UtilityGraph], home_of: Mapping[str, str],
    load_max: Mapping[str, float],
) -> HomesPlan:  # fmt: skip
    """The best shares of the outputs with a loss graph, such that every home keeps its limit.

    `home_of` maps each box to its home, `load_max` a home to its limit (a home without: none).
    Raises Refused if what must not be dropped is too much for a home already.
    """
    outputs, boxes = sorted(loss), list(network.loads)
    columns = len(outputs) * 2 + len(boxes)
    at = {name: number for number, name in enumerate(outputs)}
    needed = {name: 2 * len(outputs) + number for number, name in enumerate(boxes)}
    rows: list[np.ndarray[tuple[int], np.dtype[np.float64]]] = []
    limits: list[float] = []

    def limit(terms: Mapping[int, float], most: float) -> None:
        row = np.zeros(columns)
        for column, factor in terms.items():
            row[column] += factor
        rows.append(row)
        limits.append(most)

    for name in outputs:
        utility = len(outputs) + at[name]
        for slope, height in _lines(loss[name]):
            # The utility is below each line of the hull, over the share that is dropped.
            limit({utility: 1.0, at[name]: slope}, height + slope)
    for box in boxes:
        for output in network.behind[box]:
            if output in at:
                limit({at[output]: 1.0, needed[box]: -1.0}, 0.0)
    for home, most in load_max.items():
        limit({needed[b]: network.loads[b] for b in boxes if home_of[b] == home}, most)
    bounds = [(0.0, 1.0)] * (2 * len(outputs))
    bounds += [(0.0 if _may_be_dropped(network, box, at) else 1.0, 1.0) for box in boxes]
    worth = np.zeros(columns)
    worth[len(outputs) : 2 * len(outputs)] = -1.0
    found = linprog(worth, A_ub=np.array(rows), b_ub=limits, bounds=bounds, method="highs")
    if not found.success:
        raise Refused(
            "no drops are enough: what must be kept is more than the capacity of "
            f"{_overfull(network, home_of, load_max, at)}"
        )
    shares = {name: min(max(float(found.x[at[name]]), 0.0), 1.0) for name in outputs}
    loads: dict[str, float] = {}
    for box, load in network.loads.items():
        part = load * network.share_of(box, shares)
        loads[home_of[box]] = loads.get(home_of[box], 0.0) + part
    left = sum(graph.at(1.0 - shares[name]) for name, graph in loss.items())
    return HomesPlan(shares=shares, loads=loads, lost=len(outputs) - left)


def _may_be_dropped(network: LoadedNetwork, box: str, outputs: Mapping[str, int]) -> bool:
    behind = network.behind[box]
    return bool(behind) and all(output in outputs for output in behind)


def _overfull(
    network: LoadedNetwork, home_of: Mapping[str, str], load_max: Mapping[str, float],
    outputs: Mapping[str, int],
) -> str:  # fmt: skip
    kept: dict[str, float] = {}
    for box, load in network.loads.items():
        if not _may_be_dropped(network, box, outputs):
            kept[home_of[box]] = kept.get(home_of[box], 0.0) + load
    return ", ".join(sorted(h for h, load in kept.items() if load > load_max.get(h, load)))


def _lines(graph: UtilityGraph) -> list[tuple[float, float]]:
    """The lines of the concave hull, each as its slope and its utility where nothing is dropped."""
    hull: list[Point] = []
    for point in graph.points:
        while len(hull) >= 2 and _is_below(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return [_line(one, other) for one, other in pairwise(hull)]


def _line(one: Point, other: Point) -> tuple[float, float]:
    slope = (other[1] - one[1]) / (other[0] - one[0])
    return slope, one[1] - slope * one[0]


def _is_below(left: Point, middle: Point, right: Point) -> bool:
    slope, height = _line(left, right)
    return middle[1] <= height + slope * middle[0]


def homes_of(owners: Sequence[tuple[str, str]], fragment_of: Mapping[str, str]) -> dict[str, str]:
    """Box -> home, from (fragment, participant); Refused for a fragment that nobody runs."""
    homes = dict(owners)
    for box, fragment in fragment_of.items():
        if fragment not in homes:
            raise Refused(f"no contract says who runs fragment {fragment}, which has box {box}")
    return {box: homes[fragment] for box, fragment in fragment_of.items()}
