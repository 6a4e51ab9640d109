"""The world given to every scheme: participants, contracts, fragments, and changes.

Participants, contracts and fragments are numbered from 0; a fragment's load is the same `unit`
everywhere, so that a participant carries a whole number of units (papers: 3.12, where a unit is
1/80 of the threshold). Every participant is a home: fragment f belongs to `homes[f]` and is
placed there at first. A world never changes; the effects of a run on it are kept in a `Course`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from medusa_core.market.costs import CostFunction
from medusa_core.market.terms import PriceRange


class Contract(NamedTuple):
    """The payer may hand fragments to the provider at a price of the range, without a most load."""

    payer: int
    provider: int
    prices: PriceRange


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What changes from outside before a round (counted from 1): fragments begin at their homes,
    others end wherever they lie."""

    round: int
    arrived: tuple[int, ...] = ()
    departed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Misreport:
    """How a participant deceives: it decides as if its costs were `cost_factor` times what they
    are, and says of fragments of its own that their load is `load_factor` times what it is."""

    cost_factor: float = 1.0
    load_factor: float = 1.0


HONEST = Misreport()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """`thresholds` in units; `homes` of all fragments, those that arrive later behind the `initial`
    ones; `prices` and costs are per hour, prices per unit of *load* (not per fragment).
    `seed` is for schemes that draw lots."""

    seed: int
    unit: float
    thresholds: Sequence[int]
    costs: Sequence[CostFunction]
    contracts: Sequence[Contract]
    homes: Sequence[int]
    initial: int
    changes: tuple[Change, ...] = ()
    misreports: Mapping[int, Misreport] = field(default_factory=dict)

    @property
    def participants(self) -> int:
        """How many there are."""
        return len(self.thresholds)

    @property
    def changes_until(self) -> int:
        """The round before which the last change happens; 0 where nothing changes."""
        return max((change.round for change in self.changes), default=0)

    def stated_load(self, fragment: int) -> float:
        """The load that the fragment's home says it has; what is metered is always the unit."""
        if not self.misreports:
            return self.unit
        return self.unit * self.misreports.get(self.homes[fragment], HONEST).load_factor


class RoundFigures(NamedTuple):
    """One round, as it ended: excess in units over all thresholds, the sum of costs per hour; what
    was said and moved in it."""

    excess: int
    cost: float
    offers: int
    answers: int
    moves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run. `rounds[0]` is the state before the first round, without offers and moves.

    `units` that each carries at the end, `incomes` per hour from partners less what is paid to
    them, `lies_at` the place of every fragment (-1: not there). `moved` counts the fragments moved
    at least once, `flows` how many moves went from whom to whom. `violations` are sentences about
    laws that did not hold.
    """

    scheme: str
    is_at_rest: bool
    rounds: tuple[RoundFigures, ...]
    units: tuple[int, ...]
    incomes: tuple[float, ...]
    lies_at: Sequence[int]
    moved: int
    flows: Mapping[tuple[int, int], int]
    cpu_s: float
    violations: tuple[str, ...] = ()

    def dealt(self, participant: int) -> int:
        """In how many moves it had a part."""
        return sum(n for pair, n in self.flows.items() if participant in pair)


class Scheme(Protocol):
    """A scheme that places load. Deterministic: the same world gives the same outcome."""

    name: str

    def run(self, world: World, rounds_max: int) -> Outcome:
        """Play rounds until nothing can move any more, `rounds_max` at most."""
