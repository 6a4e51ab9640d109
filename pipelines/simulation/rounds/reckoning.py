"""The cost of load and the limits of a contract, computed from the drawn scenario.

The oracle of the market's laws: it shares no code with `medusa_core/market`, whose decisions are
compared with it. Loads are in cores, prices in currency per hour and core.
"""

from __future__ import annotations

from medusa_core.market.costs import PiecewiseLinear, Queue
from medusa_core.names import FragmentName
from pipelines.simulation.rounds.market_scenario import Agreement, Trader

SAME = 1e-9
"""Relative: the greatest difference of two orders of summation."""

SAME_LOAD = 1e-6
FLAT_FROM = 0.99
"""Where a queue's cost goes on as a straight line."""


def cost_of(trader: Trader, load: float) -> float:
    """Currency per hour of carrying so much."""
    cost = trader.cost
    if isinstance(cost, Queue):
        return _queue(cost.capacity, cost.scale, load)
    return _lines(cost, load)


def _queue(capacity: float, scale: float, load: float) -> float:
    busy = load / capacity
    if busy < FLAT_FROM:
        return scale * busy / (1 - busy)
    at = scale * FLAT_FROM / (1 - FLAT_FROM)
    return at + scale * (busy - FLAT_FROM) / (1 - FLAT_FROM) / (1 - FLAT_FROM)


def _lines(cost: PiecewiseLinear, load: float) -> float:
    points = cost.points
    behind = next((at for at, point in enumerate(points) if point[0] > load), len(points) - 1)
    (from_load, from_cost), (to_load, to_cost) = points[behind - 1], points[behind]
    return from_cost + (load - from_load) / (to_load - from_load) * (to_cost - from_cost)


def adds(trader: Trader, load: float, item: float) -> float:
    """What an item more costs on top of a load."""
    return cost_of(trader, load + item) - cost_of(trader, load)


def price_of(agreement: Agreement, level: int) -> float | None:
    """The price of a level; None if the contract has none such."""
    if not 0 <= level < len(agreement.prices):
        return None
    return agreement.prices[level] / 100


def may_move(agreement: Agreement, fragment: FragmentName) -> bool:
    """Whether the contract names this fragment."""
    return agreement.fragments is None or fragment in agreement.fragments


def no_more_than(one: float, other: float) -> bool:
    """Whether one amount is no greater than another, but for how it was added up."""
    return one <= other + SAME * max(abs(one), abs(other), 1.0)
