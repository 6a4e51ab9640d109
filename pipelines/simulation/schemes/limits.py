"""The units that a participant keeps, or takes, at a price: the move rule in whole units.

A unit is worth giving away at a price as long as its marginal cost is above it, and worth taking
as long as it is below (papers: 3.2), each by more than a dead band that keeps fragments from
moving back and forth. Marginal costs grow with the load, so each side is one number.
"""

from __future__ import annotations

from pipelines.simulation.schemes.course import CostTable

DEAD_BAND = 0.004
"""A share of the price (papers: 3.4, 0.1 where prices are about 25)."""


class Limits:
    """Limits by cost function and price, each found once. `factor`: see `Misreport.cost_factor`."""

    def __init__(self, units_max: int) -> None:
        self._units_max = units_max
        self._kept: dict[tuple[int, float, float], int] = {}
        self._taken: dict[tuple[int, float, float], int] = {}

    def kept(self, table: CostTable, price: float, factor: float = 1.0) -> int:
        """How many units do not pay to be given away: what is above is offered."""
        key = (id(table), price, factor)
        found = self._kept.get(key)
        if found is None:
            limit = price * (1 + DEAD_BAND) / factor
            found = self._kept[key] = self._last(table, limit)
        return found

    def taken(self, table: CostTable, price: float, factor: float = 1.0) -> int:
        """Up to how many units it pays to take."""
        key = (id(table), price, factor)
        found = self._taken.get(key)
        if found is None:
            limit = price * (1 - DEAD_BAND) / factor
            found = self._taken[key] = self._last(table, limit)
        return found

    def _last(self, table: CostTable, limit: float) -> int:
        """The greatest n whose n-th unit costs less than the limit."""
        low, high = 0, self._units_max
        while low < high:
            middle = (low + high + 1) // 2
            if table.removing(middle) < limit:
                low = middle
            else:
                high = middle - 1
        return low
