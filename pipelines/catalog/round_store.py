"""The store of rounds in a home, as its participant's own program uses it.

Contracts and envelopes are stored by `Agreements`, offers and answers here. The laws (S4, one
open offer per partner, a fragment in one offer) are the database's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from medusa_core.loads import RecordedSample
from medusa_core.market.declared import DeclaredCost
from medusa_core.market.knowledge import ContractInForce, MovedLoad, RequestedLoad
from medusa_core.market.messages import Answer, Item, Offer
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class Trading:
    """How the participant trades, as its owner has set it (`medusa_api.trading`)."""

    round_ms: int
    move_ms: int
    residence_ms: int
    dead_band: float
    partners_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOffer:
    """An offer that waits for an answer; `partner` gets or made it, in `round` of this home."""

    offer_id: int
    is_own: bool
    partner: Participant
    relays: bool
    round: int
    is_stale: bool
    expires_at_ms: int
    offer: Offer


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedMove:
    """A fragment that is given to a partner or taken from one; `is_granted`: it may be given."""

    move_id: int
    is_given: bool
    is_granted: bool
    partner: Participant
    contract: ContractName
    item: Item
    level: int
    round: int
    expires_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedMove:
    """A move that is done; `of` is the fragment under whose name this home meters it, None where
    what is metered says already where the fragment is (in the simulation).

    `round` is that in which it was agreed; None: it was begun by hand, and its load was not stated
    (0). `has_returned`: it has ended within the time over which load is an average; then
    `moved.since_ms` is when.
    """

    of: str | None
    moved: MovedLoad
    round: int | None = None
    has_returned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedAnswer:
    """A provider's last answer, in which round of this home it came, and to an offer at which
    level (None: it is word of room, sent once more), whose smallest item was so large."""

    answer: Answer
    round: int
    level: int | None
    smallest: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A partner has not answered lately; offers are made to it again in a later round."""

    since_ms: int
    asks_round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketFacts:
    """All that a home knows of the market, in one snapshot.

    `round` is 0 before the first; `changes` is what a decision from these facts rests on. `answers`
    is the last answer of each provider. `currencies` are those of `contracts`. `moves` are agreed
    and not done, `placed` those that are done. `moving` are the fragments of all moves that have
    not ended, agreed in a round or begun by hand, as this home names them.
    """

    participant: Participant
    clock_ms: int
    round: int
    opened_at_ms: int | None
    decided_round: int
    changes: int
    trading: Trading
    loads: tuple[RecordedSample, ...]
    declared: DeclaredCost | None
    contracts: tuple[ContractInForce, ...]
    currencies: Mapping[ContractName, str]
    open: tuple[OpenOffer, ...] = ()
    moves: tuple[AgreedMove, ...] = ()
    answers: Mapping[ContractName, ReceivedAnswer] = field(default_factory=dict)
    requested_loads: Mapping[ContractName, RequestedLoad] = field(default_factory=dict)
    silent: Mapping[Participant, Silence] = field(default_factory=dict)
    placed: tuple[PlacedMove, ...] = ()
    moving: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRecord:
    """The last answer under a contract, given (`is_own`) or got."""

    contract: ContractName
    is_own: bool
    level: int
    price: str | None
    reason: str
    accepted: int
    load: float
    round: int
    made_at_ms: int


class Rounds(Protocol):
    """A home's market. Calls raise Refused, Conflict and Unavailable as the catalog's do."""

    @property
    def participant(self) -> Participant:
        """Whose home this is."""

    def waits(self) -> bool:
        """Whether a tick might have anything to do."""

    def is_due(self) -> bool:
        """Whether a round is to be opened now: its time has passed, and there is a contract to
        trade under, or something that has to come to an end."""

    def read(self) -> MarketFacts:
        """Everything, in one snapshot."""

    def last_answers(self) -> tuple[AnswerRecord, ...]:
        """The last answers under each contract."""

    def expire(self) -> int:
        """End what has lapsed; how much."""

    def take_offer(self, envelope_id: int) -> int:
        """A verified envelope's offer waits for an answer; Refused if it may not be made."""

    def take_answer(
        self,
        envelope_id: int,
        keeps: Sequence[Item] | None = None,
        judged_at: int | None = None,
    ) -> int:
        """A verified envelope's answer ends an offer; Refused if it is none to it.

        Of what it accepts only `keeps` is given (None: all), as was judged when so many changes
        had been made; Conflict if there are more by now.
        """

    def apply(self, request: Mapping[str, Any]) -> None:
        """Write down and send what was decided, all or nothing (`market.rounds.round_documents`).

        Conflict if anything was offered or answered since it was decided.
        """

    def close(self) -> None:
        """Give connections back."""
