"""Headroom: how much more load a participant would take, by price.

Loads are moved in items, and a marginal cost is a difference, so headroom is counted in items of
the requested size.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from medusa_core.market.costs import CostFunction
from medusa_core.market.messages import LOAD_MAX, ROOMS_MAX, LoadHeadroom

ITEM_SLACK = 1e-6
"""Relative to an item: what room may lack for it by adding up."""

SAME_LOAD = 1e-9
"""Relative to a load: the greatest difference of two orders of summation."""


def pays_to_take(
    cost: CostFunction, load: float, threshold: float, limit: float, item: float
) -> bool:
    """Whether an item more costs less than `limit` a unit, and brings no overload."""
    if load + item > threshold * (1.0 + SAME_LOAD):
        return False
    return cost.cost(load + item) - cost.cost(load) < limit * item


def room_at(
    cost: CostFunction, load: float, threshold: float, limit: float, item: float, least: float = 0.0
) -> float:
    """The load, in items of this size, that could be taken one by one below `limit` a unit; `least`
    of it is known to pay."""
    if not least and not pays_to_take(cost, load, threshold, limit, item):
        return 0.0
    most = min((threshold * (1.0 + SAME_LOAD) - load) // item, LOAD_MAX // item)
    # By convexity items pay up to some number: double, then halve.
    pays, step = max(round(least / item), 1), 1
    while pays + step <= most and _pays(cost, load, limit, item, pays + step):
        pays += step
        step *= 2
    while step > 1:
        step //= 2
        if pays + step <= most and _pays(cost, load, limit, item, pays + step):
            pays += step
    return pays * item


def above(cost: CostFunction, load: float, limit: float, item: float) -> float:
    """The load, in items of this size, that is carried beyond what could be taken below `limit`: so
    much goes before the next item can come."""

    def pays(number: int) -> bool:
        after = max(load - number * item, 0.0)
        return cost.cost(after + item) - cost.cost(after) < limit * item

    high = 1
    if pays(0):
        return 0.0
    while not pays(high):
        if high * item >= load:
            return inf
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high * item


def rooms_by_level(
    cost: CostFunction,
    load: float,
    threshold: float,
    prices: Sequence[float],
    band: float,
    item: float,
) -> list[float]:
    """The room at each of these levels; a share of the price, the dead band, is taken off."""
    if not pays_to_take(cost, load, threshold, prices[-1] * (1.0 - band), item):
        return [0.0] * len(prices)
    rooms: list[float] = []
    room = 0.0
    for price in prices:
        room = room_at(cost, load, threshold, price * (1.0 - band), item, room)
        rooms.append(room)
    return rooms


def some_levels(top: int) -> Sequence[int]:
    """The levels that an answer tells of: all, or evenly spread ones with both ends."""
    if top < ROOMS_MAX:
        return range(top + 1)
    return [top * number // (ROOMS_MAX - 1) for number in range(ROOMS_MAX)]


def growing(
    levels: Sequence[int], loads: Sequence[float], most: float, item: float
) -> tuple[LoadHeadroom, ...]:
    """What an answer tells: the levels where there is an item more than at the one before."""
    rooms: list[LoadHeadroom] = []
    before = 0.0
    for level, load in zip(levels, loads, strict=True):
        if min(load, most) >= before + item * (1.0 - ITEM_SLACK):
            before = min(load, most)
            rooms.append(LoadHeadroom(level, before))
    return tuple(rooms)


def rooms_above(rooms: tuple[LoadHeadroom, ...], level: int) -> tuple[LoadHeadroom, ...]:
    """Those at higher levels alone."""
    return tuple(room for room in rooms if room.level > level)


def slack(load_max: float, lies: float) -> float:
    """How much more load a contract lets lie at its provider."""
    return inf if load_max == inf else load_max * (1.0 + SAME_LOAD) - lies


def _pays(cost: CostFunction, load: float, limit: float, item: float, number: int) -> bool:
    before = load + (number - 1) * item
    return cost.cost(before + item) - cost.cost(before) < limit * item
