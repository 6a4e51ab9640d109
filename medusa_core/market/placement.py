"""The placement of load in a replay: own fragments at providers, and payers' fragments here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from medusa_core.market.knowledge import (
    CarriedLoad,
    ContractInForce,
    MarketKnowledge,
    MovedLoad,
)
from medusa_core.market.messages import Item
from medusa_core.market.returning import worth_taking_back
from medusa_core.market.terms import ContractName
from medusa_core.names import FragmentName, Participant

Part = tuple[FragmentName, int]
"""A fragment's partition."""

Loads = Mapping[Part, float]
"""What may move and has load now, in CPU seconds per second."""


@dataclass(frozen=True, slots=True)
class PlacedLoad:
    """Own load that is placed at a provider, at the price at which it was accepted."""

    contract: ContractInForce
    price: float
    since_ms: int


@dataclass(frozen=True, slots=True)
class AcceptedLoad:
    """A payer's load that is placed here, at the price at which it was taken."""

    item: Item
    price: float
    until_ms: int


@dataclass(slots=True)
class LoadStatus:
    """Which load is placed with another participant than its owner."""

    away: dict[Part, PlacedLoad] = field(default_factory=dict)
    taken: dict[tuple[ContractName, Part], AcceptedLoad] = field(default_factory=dict)

    def let_go(self, at_ms: int) -> None:
        """What was taken and whose time is over goes back."""
        for key in [key for key, taken in self.taken.items() if taken.until_ms <= at_ms]:
            del self.taken[key]

    def take_back(self, base: MarketKnowledge, at_ms: int, loads: Loads) -> list[ContractName]:
        """What has been away for the residence and costs less at home than its price comes back,
        the dearest first; returns under which contracts it was placed. This causes no overload."""
        given = [
            MovedLoad(
                0, True, away.contract.name, Item(*part, loads[part]), away.price, away.since_ms
            )
            for part, away in self.away.items()
            if loads.get(part, 0.0) > 0.0
        ]
        load = self.load(base.load, loads)
        back = []
        for moved in worth_taking_back(base.cost, load, base.threshold, base.limits, given, at_ms):
            del self.away[moved.item.fragment, moved.item.partition]
            back.append(moved.contract)
        return back

    def load(self, all_load: float, loads: Loads) -> float:
        """What is carried at home of all own load, which is `all_load` as if nothing were away, and
        of what was taken."""
        return max(all_load - self.away_load(loads), 0.0) + self.taken_load()

    def away_load(
        self, loads: Loads, *, under: ContractName | None = None, to: Participant | None = None
    ) -> float:
        """What is away, by these loads: in all, under a contract, or at a provider."""
        return sum(
            loads.get(part, 0.0)
            for part, away in self.away.items()
            if under in (None, away.contract.name) and to in (None, away.contract.provider)
        )

    def taken_load(self, under: ContractName | None = None) -> float:
        """What was taken: in all, or under a contract."""
        return sum(
            taken.item.load for (name, _), taken in self.taken.items() if under in (None, name)
        )

    def marked(self, carried: CarriedLoad) -> CarriedLoad:
        """The same; in flight, and so offered to nobody, if it is away."""
        is_away = (carried.item.fragment, carried.item.partition) in self.away
        return replace(carried, in_flight=True) if is_away else carried
