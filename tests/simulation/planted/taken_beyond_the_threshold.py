"""What pays is taken, whether or not it brings an overload (S4)."""

from __future__ import annotations

import pytest

from medusa_core.market import accepting
from medusa_core.market.costs import CostFunction


def pays(cost: CostFunction, load: float, threshold: float, limit: float, item: float) -> bool:
    return cost.cost(load + item) - cost.cost(load) < limit * item


def plant(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(accepting, "pays_to_take", pays)
