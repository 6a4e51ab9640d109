"""Private cost functions: the cost of a participant's load, per hour, and of a change of it.

A cost function is increasing and convex, so that the marginal cost of a unit of load grows with
the load: only then do moves at a price between two marginal costs come to rest. Load is in CPU
seconds of the process tree per second (1.0 = one core kept busy); cost and prices are in a
contract's currency per hour (and per unit of load). Only its owner ever sees a cost function.

Source: the bounded-price mechanism, marginal cost by difference.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Protocol

from medusa_core.errors import Refused

UTILISATION_MAX = 0.99
"""Beyond it a queue's cost goes on as a straight line: finite, increasing, and still convex."""

POINTS_MAX = 1_000

SLOPE_TOLERANCE = 1e-9
"""By which part a slope may seem to fall: a straight line in binary numbers does, by their last."""


class CostFunction(Protocol):
    """What a load costs; increasing and convex from 0 on, at any finite load."""

    def cost(self, load: float) -> float:
        """Currency per hour of carrying `load`."""

    def slope(self, load: float) -> float:
        """Its derivative there (from the right): the marginal cost of the next bit of load."""


@dataclass(frozen=True, slots=True)
class Queue:
    """The delay in an M/M/1 queue, priced: `scale * rho / (1 - rho)`, rho = load / capacity.

    Beyond 0.99 of the capacity it goes on along its tangent. Raises Refused unless both are
    positive and finite.
    """

    capacity: float
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("capacity", self.capacity), ("scale", self.scale)):
            if not (isfinite(value) and value > 0):
                raise Refused(f"a cost function's {name} is {value}: write a number above 0")

    def cost(self, load: float) -> float:
        """See `CostFunction.cost`."""
        rho = _checked(load) / self.capacity
        if rho <= UTILISATION_MAX:
            return self.scale * rho / (1.0 - rho)
        beyond = (rho - UTILISATION_MAX) / (1.0 - UTILISATION_MAX) ** 2
        return self.scale * (UTILISATION_MAX / (1.0 - UTILISATION_MAX) + beyond)

    def slope(self, load: float) -> float:
        """See `CostFunction.slope`."""
        rho = min(_checked(load) / self.capacity, UTILISATION_MAX)
        return self.scale / self.capacity / (1.0 - rho) ** 2


@dataclass(frozen=True, slots=True)
class PiecewiseLinear:
    """Straight lines between points (load, cost), the last one going on for ever.

    Raises Refused unless there are two points at least, from load 0 on, loads increasing, costs
    increasing, and slopes never falling.
    """

    points: tuple[tuple[float, float], ...]
    _loads: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _slopes: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_points(self.points)
        object.__setattr__(self, "_loads", tuple(load for load, _ in self.points[:-1]))
        object.__setattr__(self, "_slopes", tuple(_slopes(self.points)))

    def cost(self, load: float) -> float:
        """See `CostFunction.cost`."""
        at = self._piece(_checked(load))
        from_load, from_cost = self.points[at]
        return from_cost + (load - from_load) * self._slopes[at]

    def slope(self, load: float) -> float:
        """See `CostFunction.slope`."""
        return self._slopes[self._piece(_checked(load))]

    def _piece(self, load: float) -> int:
        return bisect_right(self._loads, load) - 1


def check_points(points: Sequence[tuple[float, float]]) -> None:
    """Refuse points that make no increasing, convex function, naming the first that breaks it."""
    if not 2 <= len(points) <= POINTS_MAX:
        raise Refused(f"a cost function has {len(points)} points: write 2 to {POINTS_MAX}")
    for number, point in enumerate(points, 1):
        if not all(map(isfinite, point)):
            raise Refused(f"point {number} of the cost function is {point}: write finite numbers")
    if points[0][0] != 0:
        raise Refused(f"a cost function begins at load {points[0][0]}: let it begin at load 0")
    for number, ((load, cost), (next_load, next_cost)) in enumerate(pairwise(points), 1):
        if next_load <= load:
            raise Refused(f"load {next_load} follows load {load} (point {number + 1}): sort them")
        if next_cost <= cost:
            raise Refused(
                f"cost {next_cost} follows cost {cost} (point {number + 1}): more load costs more"
            )
    slopes = _slopes(points)
    if not all(isfinite(slope) and slope > 0 for slope in slopes):
        raise Refused(
            "a cost function rises too steeply or too little: write slopes that a number can hold"
        )
    for number, (slope, next_slope) in enumerate(pairwise(slopes), 2):
        if next_slope < slope * (1 - SLOPE_TOLERANCE):
            raise Refused(
                f"behind point {number} the cost rises by {next_slope:g} a unit of load, before it "
                f"by {slope:g}: a cost function is convex, let no later slope be smaller"
            )


def marginal_cost_of_adding(cost: CostFunction, carried: float, load: float) -> float:
    """Currency per hour and unit of load that `load` more than `carried` would cost."""
    return (cost.cost(carried + load) - cost.cost(carried)) / load


def marginal_cost_of_removing(cost: CostFunction, carried: float, load: float) -> float:
    """Currency per hour and unit of load that giving up `load` of what is carried would save."""
    return (cost.cost(carried) - cost.cost(max(carried - load, 0.0))) / load


def _slopes(points: Sequence[tuple[float, float]]) -> list[float]:
    return [
        (next_cost - cost) / (next_load - load)
        for (load, cost), (next_load, next_cost) in pairwise(points)
    ]


def _checked(load: float) -> float:
    if not (isfinite(load) and load >= 0):
        raise ValueError(f"a load of {load}")
    return load
