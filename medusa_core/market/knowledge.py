"""The knowledge of one participant in a round: own load and costs, contracts, messages.

Nothing else enters a decision of the market.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from zlib import crc32

from medusa_core.errors import Refused
from medusa_core.market.costs import CostFunction
from medusa_core.market.messages import ITEMS_MAX, Item, LoadHeadroom, Nonce, Offer
from medusa_core.market.terms import (
    ContractName,
    Method,
    Movement,
    OriginStream,
    Revision,
    Terms,
)
from medusa_core.names import FragmentName, Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketLimits:
    """How a participant trades, whatever its partners do.

    `dead_band` is a share of the price by which a move must pay on either side. What was taken is
    not offered again before `residence_ms`. Offers to `partners_max` are open at a time. An offer
    is kept open for `relay_rounds` while it is offered on. A partner's answer holds for
    `answer_rounds`; then offers are made to it again. `items_max` are in one offer.
    """

    dead_band: float = 0.004
    residence_ms: int = 0
    partners_max: int = 2
    relay_rounds: int = 20
    answer_rounds: int = 1_000
    items_max: int = ITEMS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractInForce:
    """A contract of kind movement as decisions need it; made once for each revision.

    `prices` by level, rising, in currency per hour and unit of load; `fragments` that may move
    (None: any), and `reads`, the streams of third participants that the provider reads for them.
    `spread` is the provider's place in an order that is the same for all: whoever has a choice
    among equals asks the earlier one, and room at the later ones is left to those who have no other
    (the ranking rule of online matching). `relieves` is whether what moves under it is load that
    its payer has no more: with active standby the payer computes it as well.
    """

    name: ContractName
    revision: Revision
    payer: Participant
    provider: Participant
    prices: tuple[float, ...]
    load_max: float = inf
    fragments: frozenset[FragmentName] | None = None
    reads: frozenset[OriginStream] = frozenset()
    relieves: bool = True
    spread: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spread", crc32(self.provider.encode()))

    @property
    def top(self) -> int:
        """The highest level."""
        return len(self.prices) - 1


def contract_in_force(terms: Terms, revision: Revision) -> ContractInForce:
    """What decisions need of a contract's terms; Refused unless they are of kind movement."""
    subject = terms.subject
    if not isinstance(subject, Movement):
        raise Refused(f"contract {terms.contract} moves no load: it is of kind {terms.kind.value}")
    price = subject.price
    return ContractInForce(
        name=terms.contract,
        revision=revision,
        payer=terms.payer,
        provider=terms.provider,
        prices=tuple(float(price.at(level)) for level in range(price.top + 1)),
        load_max=float(subject.load_max),
        fragments=subject.fragments,
        reads=subject.reads or frozenset(),
        relieves=subject.availability.method is not Method.ACTIVE_STANDBY,
    )


@dataclass(frozen=True, slots=True)
class CarriedLoad:
    """A fragment's partition that is computed here: since when, and under which contract it was
    taken (None: it is one's own). `in_flight`: a move of it is in progress."""

    item: Item
    contract: ContractName | None = None
    since_ms: int = 0
    in_flight: bool = False


@dataclass(frozen=True, slots=True)
class MovedLoad:
    """A fragment's partition that a provider computes for its payer: given by this participant
    (`is_given`) or taken by it, at a price in currency per hour and unit of load, since when.

    `move_id` is the move's number in this home; a fragment may be here by two moves for a while.
    """

    move_id: int
    is_given: bool
    contract: ContractName
    item: Item
    price: float
    since_ms: int


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The last answer of a provider: its rooms (none: it has none at any price), and its round.

    It counted in items as large as the `smallest` that it was offered; of smaller ones
    nothing is known.
    """

    rooms: tuple[LoadHeadroom, ...]
    round: int
    smallest: float = 0.0


@dataclass(frozen=True, slots=True)
class AcceptedItems:
    """Items that a provider accepted at a level."""

    level: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PayerStatus:
    """A contract under which one may hand load over, and how it stands with the provider.

    `load_there` lies there under it already. `open` is the own offer that waits for an answer,
    `relays` whether it is on behalf of offers of others that are kept open here; `accepted` is what
    was accepted of such an offer in this round and is not handed on. `last_answer` is None while
    nothing is known. An unreachable provider gets no offer, and what it was offered counts
    as not offered.
    """

    contract: ContractInForce
    load_there: float = 0.0
    open: Offer | None = None
    relays: bool = False
    accepted: AcceptedItems | None = None
    last_answer: LastAnswer | None = None
    unreachable_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RequestedLoad:
    """What a payer has offered last, and the answer: under which nonce, the load that was
    declined in all, its smallest item, the lowest level at which headroom was reported to it
    (None: that there is none). More is reported once there is headroom at a lower level."""

    offer: Nonce
    load: float
    smallest: float
    for_overload: bool
    reported_level: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderStatus:
    """A contract under which load may be handed over to one, and how it stands with the payer."""

    contract: ContractInForce
    load_here: float = 0.0
    request: RequestedLoad | None = None
    unreachable_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ReceivedOffer:
    """An offer that waits for an answer, and the round in which it came."""

    offer: Offer
    since_round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketKnowledge:
    """Everything one participant may know in a round; loads in the contracts' unit.

    `load` is all that it computes once the moves in progress are done: the background, which cannot
    move, and what is `carried`, in the order in which it would be offered (`in_order`). Above
    `threshold` it is overloaded; at `capacity` totally so. `nonce` was drawn for this round's
    offers: one for all, since each partner gets one at most. `taken_at` is the lowest price at
    which load was accepted in this round already: what comes on top may not cost more than that.
    `moved` is what may return to the participant that it belongs to.
    """

    participant: Participant
    round: int
    nonce: Nonce
    clock_ms: int
    cost: CostFunction
    threshold: float
    capacity: float
    load: float
    carried: tuple[CarriedLoad, ...]
    as_payer: tuple[PayerStatus, ...]
    as_provider: tuple[ProviderStatus, ...]
    received: tuple[ReceivedOffer, ...] = ()
    taken_at: float = inf
    moved: tuple[MovedLoad, ...] = ()
    limits: MarketLimits = field(default_factory=MarketLimits)


def in_order(carried: tuple[CarriedLoad, ...]) -> tuple[CarriedLoad, ...]:
    """The order in which one would offer what one carries: large before small, since the small fit
    in between, and what has been here for longest first."""
    return tuple(
        sorted(carried, key=lambda c: (-c.item.load, c.since_ms, c.item.fragment, c.item.partition))
    )
