"""The accepting side: what of the offers received a participant takes, and what it says to it.

A fragment is taken where it adds less than its price, by difference, on top of all that was taken
before in the round; the dearest offer first. Nothing is taken that would bring an overload. The
answer tells the room that is left, or at which level there is some.

Source: NSDI 2004, the bounded-price mechanism, accepting; prices in a range.
"""

from __future__ import annotations

from medusa_core.decisions import Because
from medusa_core.market.decisions import (
    GiveAnswer,
    HandOn,
    KeepOpen,
    MarketDecision,
    TellRoom,
)
from medusa_core.market.knowledge import MarketKnowledge, ProviderStanding, Received
from medusa_core.market.messages import Answer, Item, Reason, Room
from medusa_core.market.relaying import Relay, handing_on, relay_room
from medusa_core.market.rooms import SAME_LOAD, pays_to_take, room_at, room_for, slack
from medusa_core.names import Participant


def answers(knowledge: MarketKnowledge) -> list[MarketDecision]:
    """What to say now to each offer that waits, or why not yet; ask again when one's own offers
    have been answered."""
    if not knowledge.received:
        return []
    by_contract = {standing.contract.name: standing for standing in knowledge.as_provider}
    decisions: list[MarketDecision] = []
    sound: list[tuple[Received, ProviderStanding]] = []
    for received in knowledge.received:
        standing = by_contract[received.offer.contract]
        reason = refusal(received, standing)
        if reason is None:
            sound.append((received, standing))
        else:
            decisions.append(_answer(received, standing, (), None, reason, knowledge, 0.0))
    sound.sort(key=_dearest_first)
    return [*decisions, *_Taking(knowledge, sound).answers()]


def refusal(received: Received, standing: ProviderStanding) -> Reason | None:
    """Why an offer is none that the contract allows; None if it is one."""
    offer, contract = received.offer, standing.contract
    if offer.revision != contract.revision:
        return Reason.REVISION
    if offer.level > contract.top or (offer.level and not offer.for_overload):
        return Reason.TERMS
    fragments = contract.fragments
    if fragments is not None and any(item.fragment not in fragments for item in offer.items):
        return Reason.TERMS
    return None


def rooms_to_tell(knowledge: MarketKnowledge) -> list[TellRoom]:
    """Whom of those that were declined to tell that there is room now: as many as it is enough for,
    the dearest first."""
    waiting = [
        (standing, standing.wanted)
        for standing in knowledge.as_provider
        if standing.wanted is not None
        and not standing.wanted.is_told
        and standing.unreachable_since_ms is None
    ]
    if not waiting:
        return []
    waiting.sort(key=lambda w: (-w[0].contract.prices[w[1].level], w[0].contract.spread))
    ways = handing_on(knowledge)
    decisions, load = [], knowledge.load
    for standing, wanted in waiting:
        room = _room(standing, wanted.load, wanted.smallest, wanted.for_overload, load, knowledge)
        if room is None and wanted.for_overload:
            band = knowledge.limits.dead_band
            room = relay_room(ways, standing.contract.prices, band, wanted.load)
            ways = _less(ways, wanted.load)
        elif room is not None:
            load += min(room.load, wanted.load)
        if room is not None:
            answer = Answer(
                contract=standing.contract.name,
                nonce=wanted.offer,
                round=knowledge.round,
                accepted=(),
                room=room,
                reason=Reason.FULL,
            )
            because = Because("there is room again", {"room": room.load, "level": room.level})
            decisions.append(TellRoom(to=standing.contract.payer, answer=answer, because=because))
    return decisions


class _Taking:
    """What is taken in a round, over all of its offers."""

    def __init__(
        self, knowledge: MarketKnowledge, sound: list[tuple[Received, ProviderStanding]]
    ) -> None:
        self._knowledge = knowledge
        self._sound = sound
        self._load = knowledge.load
        self._band = knowledge.limits.dead_band

    def answers(self) -> list[MarketDecision]:
        taken = [self._directly(received, standing) for received, standing in self._sound]
        hands_on: list[tuple[HandOn, ...]] = [()] * len(taken)
        relay = Relay(self._knowledge)
        if not any(taken) and not relay.is_empty:
            hands_on = [self._in_turn(r, standing, relay) for r, standing in self._sound]
            taken = [tuple(hand_on.item for hand_on in handed) for handed in hands_on]
        ways = handing_on(self._knowledge)
        return [
            self._say(received, standing, items, handed, ways)
            for (received, standing), items, handed in zip(
                self._sound, taken, hands_on, strict=True
            )
        ]

    def _directly(self, received: Received, standing: ProviderStanding) -> tuple[Item, ...]:
        """What fits below the price, one on top of the other."""
        knowledge, offer = self._knowledge, received.offer
        cost = knowledge.cost
        limit = standing.contract.prices[offer.level] * (1.0 - self._band)
        if cost.slope(self._load) >= limit:
            return ()
        left = slack(standing.contract.load_max, standing.load_here)
        items = []
        for item in offer.items:
            if item.load <= left and pays_to_take(
                cost, self._load, knowledge.threshold, limit, item.load
            ):
                items.append(item)
                self._load += item.load
                left -= item.load
        return tuple(items)

    def _in_turn(
        self, received: Received, standing: ProviderStanding, relay: Relay
    ) -> tuple[HandOn, ...]:
        """What fits when as much is handed on before it."""
        offer = received.offer
        if not offer.for_overload:
            return ()
        limit = standing.contract.prices[offer.level] * (1.0 - self._band)
        left = slack(standing.contract.load_max, standing.load_here)
        handed = []
        for item in offer.items:
            hand_on = relay.make_room(item, limit) if item.load <= left else None
            if hand_on is not None:
                handed.append(hand_on)
                left -= item.load
        return tuple(handed)

    def _say(
        self,
        received: Received,
        standing: ProviderStanding,
        items: tuple[Item, ...],
        handed: tuple[HandOn, ...],
        ways: list[tuple[float, float]],
    ) -> MarketDecision:
        knowledge, offer = self._knowledge, received.offer
        prices = standing.contract.prices
        declined = max(offer.load - sum(item.load for item in items), 0.0)
        asks_on = offer.for_overload and _is_slack(standing, offer.items)
        if asks_on and not items and knowledge.round < received.since_round + _rounds(knowledge):
            limit = prices[offer.level] * (1.0 - self._band)
            waits = any(s.relays and s.open is not None for s in knowledge.as_payer)
            if waits or (ways and ways[0][0] < limit):
                return KeepOpen(
                    received=received,
                    because=Because(
                        "it may be handed on for less",
                        {"price": prices[offer.level], "load": offer.load},
                    ),
                )
        smallest = min(item.load for item in offer.items)
        wanted = declined or offer.load
        lies = sum(item.load for item in items)
        room = _room(standing, wanted, smallest, offer.for_overload, self._load, knowledge, lies)
        if room is None and asks_on:
            room = relay_room(ways, prices, self._band, wanted)
        reason = Reason.TAKEN
        if declined:
            reason = Reason.FULL if _is_slack(standing, offer.items) else Reason.LOAD_MAX
        return _answer(received, standing, items, room, reason, knowledge, self._load, handed)


def _room(
    standing: ProviderStanding,
    wanted: float,
    smallest: float,
    is_for_overload: bool,
    load: float,
    knowledge: MarketKnowledge,
    lies: float = 0.0,
) -> Room | None:
    """The room for what is wanted under a contract, at the lowest level that has it; one that has
    no overload pays the lowest price alone."""
    left = slack(standing.contract.load_max, standing.load_here + lies)
    if left < smallest:
        return None
    prices, band = standing.contract.prices, knowledge.limits.dead_band
    if not is_for_overload:
        limit = prices[0] * (1.0 - band)
        room = room_at(knowledge.cost, load, knowledge.threshold, limit, smallest)
        found = Room(0, room) if room else None
    else:
        found = room_for(knowledge.cost, load, knowledge.threshold, prices, band, wanted, smallest)
    if found is not None and found.load > left:
        return Room(found.level, left)
    return found


def _answer(
    received: Received,
    standing: ProviderStanding,
    items: tuple[Item, ...],
    room: Room | None,
    reason: Reason,
    knowledge: MarketKnowledge,
    load: float,
    handed: tuple[HandOn, ...] = (),
) -> GiveAnswer:
    offer = received.offer
    payer: Participant = standing.contract.payer
    numbers: dict[str, int | float] = {"offered": len(offer.items), "accepted": len(items)}
    if reason in (Reason.TAKEN, Reason.FULL):
        price = standing.contract.prices[offer.level]
        numbers |= {"price": price, "marginal_cost": knowledge.cost.slope(load), "load": load}
    return GiveAnswer(
        to=payer,
        received=received,
        answer=Answer(
            contract=offer.contract,
            nonce=offer.nonce,
            round=knowledge.round,
            accepted=items,
            room=room,
            reason=reason,
        ),
        because=Because(_WHY[reason], numbers),
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


def _dearest_first(sound: tuple[Received, ProviderStanding]) -> tuple[float, bool, int, int]:
    received, standing = sound
    offer = received.offer
    return (
        -standing.contract.prices[offer.level],
        not offer.for_overload,
        received.since_round,
        standing.contract.spread,
    )


def _is_slack(standing: ProviderStanding, items: tuple[Item, ...]) -> bool:
    """Whether the contract lets one of them lie here at all."""
    left = slack(standing.contract.load_max, standing.load_here)
    return any(item.load <= left for item in items)


def _rounds(knowledge: MarketKnowledge) -> int:
    return knowledge.limits.relay_rounds


def _less(ways: list[tuple[float, float]], load: float) -> list[tuple[float, float]]:
    """The ways that are left when so much has gone the cheapest of them."""
    left = []
    for price, room in ways:
        if room > load * (1.0 + SAME_LOAD):
            left.append((price, room - load))
        load = max(load - room, 0.0)
    return left
