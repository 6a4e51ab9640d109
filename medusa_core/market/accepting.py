"""The accepting side: which received offers a participant accepts, and its answer.

A fragment is accepted where it adds less than its price, by difference, to the cost of all that
was accepted before in the round; offers with the highest price come first. Nothing is accepted
that would cause an overload. The answer reports the headroom that is left, or the level at which
there is some.

Source: NSDI 2004, the bounded-price mechanism, accepting; prices in a range.
"""

from __future__ import annotations

from medusa_core.decisions import DecisionReason
from medusa_core.market.decisions import (
    GiveAnswer,
    HandOn,
    KeepOpen,
    LowerLoad,
    MarketDecision,
    ReportHeadroom,
)
from medusa_core.market.headroom import (
    SAME_LOAD,
    growing,
    pays_to_take,
    room_at,
    rooms_above,
    rooms_by_level,
    slack,
    some_levels,
)
from medusa_core.market.knowledge import (
    MarketKnowledge,
    ProviderStatus,
    ReceivedOffer,
    RequestedLoad,
)
from medusa_core.market.messages import Answer, Item, LoadHeadroom, Reason
from medusa_core.market.relaying import Relay, RelayHeadroom, relay_headroom, rooms_by_relay
from medusa_core.market.shedding import is_overloaded
from medusa_core.market.terms import is_named
from medusa_core.names import Participant

IN_VAIN = 2.0**-10
"""A payer that was sent headroom ten times or more in vain receives no further report."""


def answers(knowledge: MarketKnowledge) -> list[MarketDecision]:
    """What to say now to each offer that waits, or why not yet; ask again when one's own offers
    have been answered."""
    if not knowledge.received:
        return []
    by_contract = {status.contract.name: status for status in knowledge.as_provider}
    decisions: list[MarketDecision] = []
    sound: list[tuple[ReceivedOffer, ProviderStatus]] = []
    for received in knowledge.received:
        status = by_contract[received.offer.contract]
        reason = refusal(received, status)
        if reason is None:
            sound.append((received, status))
        else:
            decisions.append(_answer(received, status, (), (), reason, knowledge, 0.0))
    sound.sort(key=_dearest_first)
    return [*decisions, *_Taking(knowledge, sound).answers()]


def refusal(received: ReceivedOffer, status: ProviderStatus) -> Reason | None:
    """Why an offer is none that the contract allows; None if it is one."""
    offer, contract = received.offer, status.contract
    if offer.revision != contract.revision:
        return Reason.REVISION
    if offer.level > contract.top or (offer.level and not offer.for_overload):
        return Reason.TERMS
    fragments = contract.fragments
    if fragments is not None and not all(is_named(i.fragment, fragments) for i in offer.items):
        return Reason.TERMS
    return None


def headroom_reports(knowledge: MarketKnowledge) -> list[ReportHeadroom]:
    """Whom of those that were declined to tell that there is room now: as many as it is enough for,
    the dearest first."""
    waiting = [
        (status, status.request)
        for status in knowledge.as_provider
        if status.request is not None
        and status.request.reported_level != 0
        and not 0.0 < status.request.load <= status.request.smallest * IN_VAIN
        and status.unreachable_since_ms is None
    ]
    if not waiting:
        return []
    waiting.sort(key=lambda w: (not w[1].for_overload, -w[1].load, w[0].contract.spread))
    relays = relay_headroom(knowledge, max(w[1].load for w in waiting))
    decisions, load = [], knowledge.load
    for status, request in waiting:
        rooms = _rooms(status, request, knowledge, load, relays)
        reported_level = request.reported_level
        if rooms and (reported_level is None or rooms[0].level < reported_level):
            load += min(rooms[-1].load, request.load)
            relays = _less(relays, request.load)
            answer = Answer(
                contract=status.contract.name,
                nonce=request.offer,
                round=knowledge.round,
                accepted=(),
                rooms=rooms,
                reason=Reason.FULL,
            )
            because = DecisionReason(
                "there is room again", {"level": rooms[0].level, "room": rooms[-1].load}
            )
            decisions.append(
                ReportHeadroom(to=status.contract.payer, answer=answer, because=because)
            )
    return decisions


class _Taking:
    """What is taken in a round, over all of its offers."""

    def __init__(
        self, knowledge: MarketKnowledge, sound: list[tuple[ReceivedOffer, ProviderStatus]]
    ) -> None:
        self._knowledge = knowledge
        self._sound = sound
        self._load = knowledge.load
        self._band = knowledge.limits.dead_band

    def answers(self) -> list[MarketDecision]:
        knowledge = self._knowledge
        relay = Relay(knowledge)
        most = max((received.offer.load for received, _ in self._sound), default=0.0)
        relays = relay_headroom(knowledge, most)
        kept: list[KeepOpen] = []
        taken: list[tuple[ReceivedOffer, ProviderStatus, tuple[Item, ...], tuple[HandOn, ...]]] = []
        for received, status in self._sound:
            if relay.is_empty and self._asks_on(received, status, relays):
                kept.append(_keep(received, status))
                continue
            items, handed = self._take(received, status, relay)
            if not items and self._asks_on(received, status, relays):
                kept.append(_keep(received, status))
            else:
                taken.append((received, status, items, handed))
        answers = [self._say(*one, relays) for one in taken]
        return [*answers, *kept, *self._lower(relay, [one.received for one in kept])]

    def _lower(self, relay: Relay, kept: list[ReceivedOffer]) -> list[MarketDecision]:
        """What is handed on already, for those whose offers stay open."""
        if relay.is_empty or not kept:
            return []
        contracts = {status.contract.name: status.contract for _, status in self._sound}
        price = max(contracts[r.offer.contract].prices[r.offer.level] for r in kept)
        smallest = min(item.load for received in kept for item in received.offer.items)
        leaves = relay.lower(self._load, smallest, price * (1.0 - self._band))
        if not leaves:
            return []
        because = DecisionReason(
            "it pays by itself, and more load is offered than fits",
            {"price": price, "load": self._load},
        )
        return [LowerLoad(leaves=tuple(leaves), because=because)]

    def _asks_on(
        self, received: ReceivedOffer, status: ProviderStatus, relays: list[RelayHeadroom]
    ) -> bool:
        """Whether to keep an offer open: most of it does not fit, and either an own offer for less
        waits, or there is time and somebody to ask for less. Who waits for whom has a lower price
        each time, so none waits for itself."""
        knowledge, offer = self._knowledge, received.offer
        if not offer.for_overload or is_overloaded(knowledge):
            return False
        limit = status.contract.prices[offer.level] * (1.0 - self._band)
        waits = any(
            own.open is not None
            and own.relays
            and own.unreachable_since_ms is None
            and own.contract.prices[own.open.level] < limit
            for own in knowledge.as_payer
        )
        is_time = knowledge.round < received.since_round + knowledge.limits.relay_rounds
        if not waits and not (is_time and relays and relays[0].price < limit):
            return False
        left = slack(status.contract.load_max, status.load_here)
        load = sum(item.load for item in offer.items if item.load <= left)
        smallest = min(item.load for item in offer.items)
        room = room_at(knowledge.cost, self._load, knowledge.threshold, limit, smallest)
        return room < load / 2.0

    def _take(
        self, received: ReceivedOffer, status: ProviderStatus, relay: Relay
    ) -> tuple[tuple[Item, ...], tuple[HandOn, ...]]:
        """What fits below the price, one on top of the other; then as much as is handed on."""
        knowledge, offer = self._knowledge, received.offer
        cost = knowledge.cost
        limit = status.contract.prices[offer.level] * (1.0 - self._band)
        left = slack(status.contract.load_max, status.load_here)
        on_top = min(limit, knowledge.taken_at * (1.0 - self._band))
        is_full = cost.slope(self._load) >= on_top
        items: list[Item] = []
        handed: list[HandOn] = []
        for item in offer.items:
            if item.load > left:
                continue
            if not is_full and pays_to_take(
                cost, self._load, knowledge.threshold, on_top, item.load
            ):
                self._load += item.load
            elif relay.is_empty or not offer.for_overload:
                continue
            else:
                made = relay.make_room(self._load, item, limit, on_top)
                if made is None:
                    continue
                hand_on, load = made
                # An exchange may lapse, so nothing else is taken into what it would make free.
                self._load = max(self._load, load)
                handed.append(hand_on)
            items.append(item)
            left -= item.load
        return tuple(items), tuple(handed)

    def _say(
        self,
        received: ReceivedOffer,
        status: ProviderStatus,
        items: tuple[Item, ...],
        handed: tuple[HandOn, ...],
        relays: list[RelayHeadroom],
    ) -> MarketDecision:
        knowledge, offer = self._knowledge, received.offer
        accepted = sum(item.load for item in items)
        declined = max(offer.load - accepted, 0.0)
        request = RequestedLoad(
            offer=offer.nonce,
            load=declined or offer.load,
            smallest=min(item.load for item in offer.items),
            for_overload=offer.for_overload,
            reported_level=None,
        )
        rooms = _rooms(status, request, knowledge, self._load, relays, accepted)
        if not items:
            # Else the same would be offered again at once; headroom is reported if there is some.
            rooms = rooms_above(rooms, offer.level)
        reason = Reason.TAKEN
        if declined:
            reason = Reason.FULL if _is_slack(status, offer.items) else Reason.LOAD_MAX
        return _answer(received, status, items, rooms, reason, knowledge, self._load, handed)


def _keep(received: ReceivedOffer, status: ProviderStatus) -> KeepOpen:
    offer = received.offer
    numbers = {"price": status.contract.prices[offer.level], "load": offer.load}
    return KeepOpen(
        received=received, because=DecisionReason("it may be handed on for less", numbers)
    )


def _rooms(
    status: ProviderStatus,
    request: RequestedLoad,
    knowledge: MarketKnowledge,
    load: float,
    relays: list[RelayHeadroom],
    accepted: float = 0.0,
) -> tuple[LoadHeadroom, ...]:
    """What could be taken under a contract, by level: into the room that there is, or by handing
    on."""
    left = slack(status.contract.load_max, status.load_here + accepted)
    if left < request.smallest:
        return ()
    levels = some_levels(status.contract.top)
    prices = [status.contract.prices[level] for level in levels]
    band = knowledge.limits.dead_band
    loads = rooms_by_level(
        knowledge.cost, load, knowledge.threshold, prices, band, request.smallest
    )
    # What it could have back again is no room for it.
    relays = [relay for relay in relays if relay.provider != status.contract.payer]
    if relays:
        relayed = rooms_by_relay(relays, prices, knowledge, load, loads, request.smallest)
        # At the lowest price one that has no overload may ask too, for which nobody asks on.
        loads = relayed if request.for_overload else [loads[0], *relayed[1:]]
    return growing(levels, loads, left, request.smallest)


def _answer(
    received: ReceivedOffer,
    status: ProviderStatus,
    items: tuple[Item, ...],
    rooms: tuple[LoadHeadroom, ...],
    reason: Reason,
    knowledge: MarketKnowledge,
    load: float,
    handed: tuple[HandOn, ...] = (),
) -> GiveAnswer:
    offer = received.offer
    payer: Participant = status.contract.payer
    numbers: dict[str, int | float] = {"offered": len(offer.items), "accepted": len(items)}
    if reason in (Reason.TAKEN, Reason.FULL):
        price = status.contract.prices[offer.level]
        numbers |= {"price": price, "marginal_cost": knowledge.cost.slope(load), "load": load}
    return GiveAnswer(
        to=payer,
        received=received,
        answer=Answer(
            contract=offer.contract,
            nonce=offer.nonce,
            round=knowledge.round,
            accepted=items,
            rooms=rooms,
            reason=reason,
        ),
        because=DecisionReason(_WHY[reason], numbers),
        hands_on=handed,
    )


_WHY = {
    Reason.TAKEN: "taking it costs less than is paid",
    Reason.FULL: "taking more would cost more than is paid",
    Reason.LOAD_MAX: "the contract lets no more load lie here",
    Reason.REVISION: "another revision of the contract is in force",
    Reason.TERMS: "the contract does not allow it",
    Reason.STALE: "the offer is not of this round",
}


def _dearest_first(
    sound: tuple[ReceivedOffer, ProviderStatus],
) -> tuple[float, bool, float, int, int]:
    # Of equal prices the larger first: what is small finds room elsewhere, and less stays over.
    received, status = sound
    offer = received.offer
    return (
        -status.contract.prices[offer.level],
        not offer.for_overload,
        -offer.load,
        received.since_round,
        status.contract.spread,
    )


def _is_slack(status: ProviderStatus, items: tuple[Item, ...]) -> bool:
    """Whether the contract lets one of them lie here at all."""
    left = slack(status.contract.load_max, status.load_here)
    return any(item.load <= left for item in items)


def _less(relays: list[RelayHeadroom], load: float) -> list[RelayHeadroom]:
    """The relays that are left when so much load has taken the cheapest ones."""
    left = []
    for relay in relays:
        if relay.load > load * (1.0 + SAME_LOAD):
            left.append(relay._replace(load=relay.load - load))
        load = max(load - relay.load, 0.0)
    return left
