"""The moves of a round: agreed load is handed over, and load that makes room for it.

Payers hand over in their own order. If a relay receives a fragment before the one that it decided
to hand on in exchange, it may still have room, and handing on may not pay yet. Then the second
fragment is *owed*: its room was promised to others, and it leaves before one of them arrives that
would find no room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from medusa_core.market.costs import CostFunction
from medusa_core.market.headroom import pays_to_take
from medusa_core.market.relaying import exchange
from medusa_core.market.terms import ContractName
from pipelines.simulation.schemes.course import Course


class Agreed(NamedTuple):
    """A fragment that a provider takes, and the fragments that leave it first."""

    payer: int
    provider: int
    contract: ContractName
    price: float
    leaves: tuple[int, ...]


class Decides(Protocol):
    """By what a participant decides."""

    @property
    def cost(self) -> CostFunction: ...

    @property
    def threshold(self) -> float: ...


class HandingOver:
    """Moves fragments as they were `agreed` (by number), through the course of a run. `moved` are
    those that were, in order; prices have a `dead_band` on either side."""

    def __init__(
        self,
        course: Course,
        homes: Sequence[Decides],
        agreed: Mapping[int, Agreed],
        dead_band: float,
    ) -> None:
        self.moved: list[tuple[int, Agreed]] = []
        self._course = course
        self._homes = homes
        self._agreed = agreed
        self._band = dead_band
        self._unit = course.world.unit
        self._owed: dict[int, list[int]] = {}

    def hand_over(self, fragment: int) -> bool:
        """Whether it was: what a relay was to hand on may not pay any more."""
        agreed = self._agreed[fragment]
        leaves = agreed.leaves
        if not leaves:
            self._keep_promise(agreed)
            self._move(fragment, agreed)
            return True
        home, unit, provider = self._homes[agreed.provider], self._unit, agreed.provider
        out = [(self._agreed[leaf].price * (1.0 + self._band), unit) for leaf in leaves]
        paid = agreed.price * (1.0 - self._band)
        how = exchange(home.cost, self._load(provider), home.threshold, paid, unit, out)
        if how is None or not all(self.hand_over(leaf) for leaf in leaves[: how.before]):
            return False
        self._move(fragment, agreed)
        stay = [leaf for leaf in leaves[: how.after] if not self.hand_over(leaf)]
        self._owed.setdefault(provider, []).extend((*stay, *leaves[how.before + how.after :]))
        return True

    def still_pays(self, fragment: int) -> bool:
        """Whether a relay gains by handing on a fragment now, by itself."""
        agreed = self._agreed[fragment]
        home, load = self._homes[agreed.payer], self._load(agreed.payer)
        saves = home.cost.cost(load) - home.cost.cost(max(load - self._unit, 0.0))
        return saves > agreed.price * (1.0 + self._band) * self._unit

    def _keep_promise(self, agreed: Agreed) -> None:
        """Make the room that a fragment was promised, if another came first into it."""
        owed = self._owed.get(agreed.provider)
        home, limit = self._homes[agreed.provider], agreed.price * (1.0 - self._band)
        while owed and not pays_to_take(
            home.cost, self._load(agreed.provider), home.threshold, limit, self._unit
        ):
            leaf = owed.pop(0)
            if self.still_pays(leaf):
                self.hand_over(leaf)

    def _load(self, number: int) -> float:
        return self._course.units[number] * self._unit

    def _move(self, fragment: int, agreed: Agreed) -> None:
        self._course.move(fragment, agreed.payer, agreed.provider, agreed.price)
        self.moved.append((fragment, agreed))
