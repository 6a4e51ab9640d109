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
from medusa_core.market.knowledge import MarketKnowledge, ProviderStanding, Received, Wanted
from medusa_core.market.messages import Answer, Item, Reason, Room
from medusa_core.market.relaying import Relay, rooms_by_relay, ways_on
from medusa_core.market.rooms import (
    SAME_LOAD,
    growing,
    pays_to_take,
    rooms_by_level,
    slack,
    some_levels,
)
from medusa_core.market.shedding import is_overloaded
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
            decisions.append(_answer(received, standing, (), (), reason, knowledge, 0.0))
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
        and standing.wanted.told_level != 0
        and standing.unreachable_since_ms is None
    ]
    if not waiting:
        return []
    waiting.sort(key=lambda w: (not w[1].for_overload, -w[1].load, w[0].contract.spread))
    ways = ways_on(knowledge)
    decisions, load = [], knowledge.load
    for standing, wanted in waiting:
        rooms = _rooms(standing, wanted, knowledge, load, ways)
        told_level = wanted.told_level
        if rooms and (told_level is None or rooms[0].level < told_level):
            load += min(rooms[-1].load, wanted.load)
            ways = _less(ways, wanted.load)
            answer = Answer(
                contract=standing.contract.name,
                nonce=wanted.offer,
                round=knowledge.round,
                accepted=(),
                rooms=rooms,
                reason=Reason.FULL,
            )
            because = Because(
                "there is room again", {"level": rooms[0].level, "room": rooms[-1].load}
            )
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
        if not any(taken) and not relay.is_empty and not is_overloaded(self._knowledge):
            hands_on = [self._in_turn(r, standing, relay) for r, standing in self._sound]
            taken = [tuple(hand_on.item for hand_on in handed) for handed in hands_on]
        ways = ways_on(self._knowledge)
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
        asks_on = (
            offer.for_overload and not is_overloaded(knowledge) and _is_slack(standing, offer.items)
        )
        limit = prices[offer.level] * (1.0 - self._band)
        if asks_on and not items and self._may_hand_on(received, limit, ways):
            return KeepOpen(
                received=received,
                because=Because(
                    "it may be handed on for less",
                    {"price": prices[offer.level], "load": offer.load},
                ),
            )
        lies = sum(item.load for item in items)
        wanted = Wanted(
            offer=offer.nonce,
            load=declined or offer.load,
            smallest=min(item.load for item in offer.items),
            for_overload=offer.for_overload,
            told_level=None,
        )
        rooms = _rooms(standing, wanted, knowledge, self._load, ways, lies)
        reason = Reason.TAKEN
        if declined:
            reason = Reason.FULL if _is_slack(standing, offer.items) else Reason.LOAD_MAX
        return _answer(received, standing, items, rooms, reason, knowledge, self._load, handed)

    def _may_hand_on(
        self, received: Received, limit: float, ways: list[tuple[float, float]]
    ) -> bool:
        """Whether an own offer for less waits, or there is time and somebody to ask for less. Who
        waits for whom has a lower price each time, so none waits for itself."""
        knowledge = self._knowledge
        if any(
            standing.open is not None
            and standing.relays
            and standing.unreachable_since_ms is None
            and standing.contract.prices[standing.open.level] < limit
            for standing in knowledge.as_payer
        ):
            return True
        is_time = knowledge.round < received.since_round + knowledge.limits.relay_rounds
        return is_time and bool(ways) and ways[0][0] < limit


def _rooms(
    standing: ProviderStanding,
    wanted: Wanted,
    knowledge: MarketKnowledge,
    load: float,
    ways: list[tuple[float, float]],
    lies: float = 0.0,
) -> tuple[Room, ...]:
    """What could be taken under a contract, by level: into the room that there is, or by handing
    on."""
    left = slack(standing.contract.load_max, standing.load_here + lies)
    if left < wanted.smallest:
        return ()
    levels = some_levels(standing.contract.top)
    prices = [standing.contract.prices[level] for level in levels]
    band = knowledge.limits.dead_band
    loads = rooms_by_level(knowledge.cost, load, knowledge.threshold, prices, band, wanted.smallest)
    if ways:
        loads = list(
            map(max, loads, rooms_by_relay(ways, prices, knowledge, wanted.load, wanted.smallest))
        )
    return growing(levels, loads, left)


def _answer(
    received: Received,
    standing: ProviderStanding,
    items: tuple[Item, ...],
    rooms: tuple[Room, ...],
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
            rooms=rooms,
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


def _less(ways: list[tuple[float, float]], load: float) -> list[tuple[float, float]]:
    """The ways that are left when so much has gone the cheapest of them."""
    left = []
    for price, room in ways:
        if room > load * (1.0 + SAME_LOAD):
            left.append((price, room - load))
        load = max(load - room, 0.0)
    return left
