"""The outcome of a replay: moves, payments, overload and cost, and how an edit changes them.

Amounts are estimates in binary numbers: nothing is billed by them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from medusa_core.decisions import DecisionReason
from medusa_core.frozen import freeze
from medusa_core.market.headroom import SAME_LOAD
from medusa_core.market.knowledge import MarketKnowledge
from medusa_core.market.placement import Loads, LoadStatus
from medusa_core.market.terms import ContractName

HOUR_MS = 3_600_000


@dataclass(slots=True)
class ContractOutcome:
    """Under one contract: `moves_out` left, of which `moves_back` came back; `moves_in` came.

    Loads are CPU seconds, amounts in the contract's currency. `because` is the reason of the move
    that moved most at once.
    """

    moves_out: int = 0
    moves_back: int = 0
    moves_in: int = 0
    load_s_out: float = 0.0
    load_s_in: float = 0.0
    paid: float = 0.0
    earned: float = 0.0
    because: DecisionReason | None = None
    because_load: float = 0.0

    @property
    def moves(self) -> int:
        """All moves, in both directions."""
        return self.moves_out + self.moves_back + self.moves_in

    @property
    def load_s(self) -> float:
        """What was computed elsewhere than where it belongs."""
        return self.load_s_out + self.load_s_in

    def note(self, because: DecisionReason, load: float) -> None:
        """Keep the reason of what moved most."""
        if load > self.because_load:
            self.because, self.because_load = because, load


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A replay: over `recorded_ms` of load, of which all `load_s` was either carried at home or
    lay at partners; `home_load_s` has what was taken, too.

    `overload_s` is how long more than the threshold was carried, `overload_load_s` how much more.
    `cost` is by the participant's own cost function, without what was paid and earned.
    """

    recorded_ms: int
    load_s: float
    home_load_s: float
    overload_s: float
    overload_load_s: float
    cost: float
    contracts: Mapping[ContractName, ContractOutcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "contracts")

    @property
    def paid(self) -> float:
        """To all partners."""
        return sum(contract.paid for contract in self.contracts.values())

    @property
    def earned(self) -> float:
        """From all partners."""
        return sum(contract.earned for contract in self.contracts.values())

    @property
    def total(self) -> float:
        """What it comes to: the cost, and what was paid, less what was earned."""
        return self.cost + self.paid - self.earned

    @property
    def overload_share(self) -> float:
        """The share of the recorded time with an overload."""
        return self.overload_s * 1_000 / self.recorded_ms if self.recorded_ms else 0.0

    @property
    def moves(self) -> int:
        """All moves, in both directions."""
        return sum(contract.moves for contract in self.contracts.values())


class Tally:
    """What a replay comes to, as it goes on."""

    def __init__(self, contracts: Iterable[ContractName]) -> None:
        self.of = {name: ContractOutcome() for name in contracts}
        self._recorded_ms = 0
        self._load_s = self._home_load_s = self._overload_s = self._overload_load_s = 0.0
        self._cost = 0.0

    def measure(
        self,
        load_status: LoadStatus,
        base: MarketKnowledge,
        length_ms: int,
        load: float,
        loads: Loads,
    ) -> None:
        """Some time has passed with this load: what was carried, what it cost, who is paid."""
        seconds, hours = length_ms / 1_000, length_ms / HOUR_MS
        for part, away in load_status.away.items():
            outcome, own = self.of[away.contract.name], loads.get(part, 0.0)
            outcome.load_s_out += own * seconds
            outcome.paid += away.price * own * hours
        for (name, _), taken in load_status.taken.items():
            outcome = self.of[name]
            outcome.load_s_in += taken.item.load * seconds
            outcome.earned += taken.price * taken.item.load * hours
        home = load_status.load(load, loads)
        self._recorded_ms += length_ms
        self._load_s += load * seconds
        self._home_load_s += home * seconds
        self._cost += base.cost.cost(home) * hours
        if home > base.threshold * (1.0 + SAME_LOAD):
            self._overload_s += seconds
            self._overload_load_s += (home - base.threshold) * seconds

    def outcome(self) -> Outcome:
        """What it has come to."""
        return Outcome(
            recorded_ms=self._recorded_ms,
            load_s=self._load_s,
            home_load_s=self._home_load_s,
            overload_s=self._overload_s,
            overload_load_s=self._overload_load_s,
            cost=self._cost,
            contracts=self.of,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestChange:
    """The contract under which most changes, by how many moves and how much load (CPU seconds), and
    the reason of its largest move: after the edit, or, where `is_less`, the one that is made no
    more, or less often."""

    contract: ContractName
    moves: int
    load_s: float
    is_less: bool
    because: DecisionReason | None


def largest_change(before: Outcome, after: Outcome) -> LargestChange | None:
    """Where an edit changes most; None if it changes no move and no load."""
    nothing = ContractOutcome()
    found: LargestChange | None = None
    for name in sorted(before.contracts.keys() | after.contracts.keys()):
        was, would_be = before.contracts.get(name, nothing), after.contracts.get(name, nothing)
        load_s = would_be.load_s - was.load_s
        moves = would_be.moves - was.moves
        if load_s == 0.0 and moves == 0:
            continue
        if found is not None and abs(load_s) <= abs(found.load_s):
            continue
        is_less = load_s < 0.0 or (load_s == 0.0 and moves < 0)
        found = LargestChange(
            contract=name,
            moves=moves,
            load_s=load_s,
            is_less=is_less,
            because=(was if is_less else would_be).because,
        )
    return found
