"""How much load pays: what one would take at a price, and at which level it would take what is
wanted.

Loads come in items, and a marginal cost is one by difference, so room is counted in items of the
size that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from medusa_core.market.costs import CostFunction
from medusa_core.market.messages import LOAD_MAX, Room

SAME_LOAD = 1e-9
"""Relative to a load: what two ways of adding it up may differ by."""


def pays_to_take(
    cost: CostFunction, load: float, threshold: float, limit: float, item: float
) -> bool:
    """Whether an item more costs less than `limit` a unit, and brings no overload."""
    if load + item > threshold * (1.0 + SAME_LOAD):
        return False
    return cost.cost(load + item) - cost.cost(load) < limit * item


def room_at(cost: CostFunction, load: float, threshold: float, limit: float, item: float) -> float:
    """The load, in items of this size, that could be taken one by one below `limit` a unit."""
    if not pays_to_take(cost, load, threshold, limit, item):
        return 0.0
    most = min((threshold * (1.0 + SAME_LOAD) - load) // item, LOAD_MAX)
    # By convexity items pay up to some number: double, then halve.
    pays, step = 1.0, 1.0
    while pays + step <= most and _pays(cost, load, limit, item, pays + step):
        pays += step
        step *= 2.0
    while step >= 1.0:
        if pays + step <= most and _pays(cost, load, limit, item, pays + step):
            pays += step
        step /= 2.0
    return pays * item


def room_for(
    cost: CostFunction,
    load: float,
    threshold: float,
    prices: Sequence[float],
    band: float,
    wanted: float,
    item: float,
) -> Room | None:
    """The lowest level at which all that is wanted would be taken, else the lowest at which as much
    would be as at the highest; None if nothing would be at any. `prices` by level, rising, of which
    a share, the dead band, is taken off."""

    def room(level: int) -> float:
        return room_at(cost, load, threshold, prices[level] * (1.0 - band), item)

    top = len(prices) - 1
    most = room(top)
    if most == 0.0:
        return None
    enough = min(wanted * (1.0 - SAME_LOAD), most)
    low, high = 0, top
    while low < high:
        middle = (low + high) // 2
        if room(middle) >= enough:
            high = middle
        else:
            low = middle + 1
    return Room(low, room(low) if low < top else most)


def slack(load_max: float, lies: float) -> float:
    """How much more load a contract lets lie at its provider."""
    return inf if load_max == inf else load_max * (1.0 + SAME_LOAD) - lies


def _pays(cost: CostFunction, load: float, limit: float, item: float, number: float) -> bool:
    before = load + (number - 1.0) * item
    return cost.cost(before + item) - cost.cost(before) < limit * item
