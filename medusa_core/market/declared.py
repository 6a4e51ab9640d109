"""A participant's declarations, in its own home alone: cost, threshold, currency.

The owner sets them by SQL (`medusa_api.cost`), where the database makes the same checks in the
same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite

from medusa_core.commits import Cause
from medusa_core.errors import Refused
from medusa_core.loads import Load
from medusa_core.market.costs import PiecewiseLinear, Queue, marginal_cost_of_removing


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredCost:
    """The cost function in force, and above which load (CPU seconds per second) it is too much.

    `number` grows with each declaration. Raises Refused for a threshold that is no number above 0
    or lies beyond a queue's capacity, and for a currency that is none.
    """

    cost: Queue | PiecewiseLinear
    threshold: float
    currency: str
    number: int = 1

    def __post_init__(self) -> None:
        if not (isfinite(self.threshold) and self.threshold > 0):
            raise Refused(f"the threshold is {self.threshold}: write a number above 0")
        if isinstance(self.cost, Queue) and self.threshold > self.cost.capacity:
            raise Refused(
                f"the threshold {self.threshold} is beyond the capacity {self.cost.capacity}: "
                "write one that is no greater"
            )
        currency = self.currency
        if not (len(currency) == 3 and currency.isascii() and currency.isalpha()
                and currency.isupper()):  # fmt: skip
            raise Refused(
                f"{currency!r} is not a currency: write three capital letters, such as EUR"
            )


def marginal_costs(declared: DeclaredCost, load: Load) -> Mapping[tuple[str, int], float]:
    """What a unit of each fragment's load costs now, by difference: currency per hour and unit.

    By (fragment, partition), of those that have load other than corrections.
    """
    fragments = sorted({
        (key.fragment, key.partition)
        for key, spent in load.by_key.items()
        if key.cause is not Cause.CORRECTION and spent > 0
    })  # fmt: skip
    return {
        of: marginal_cost_of_removing(declared.cost, load.carried, load.of(*of)) for of in fragments
    }
