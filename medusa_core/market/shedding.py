"""The shedding side: the fragments that a participant offers, to which partner, at which level.

A fragment is offered where removing it saves more than its price, by difference, one after the
other; the contract with the lowest price first. Prices above the lowest are offered only because
of an overload. A provider's last answer limits what it is offered, and at which level; a provider
that reported no headroom gets no offer until it reports some.

Source: NSDI 2004, the bounded-price mechanism, shedding and prices in a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from medusa_core.decisions import DecisionReason
from medusa_core.market.decisions import MakeOffer
from medusa_core.market.headroom import SAME_LOAD, slack
from medusa_core.market.knowledge import CarriedLoad, MarketKnowledge, MarketLimits, PayerStatus
from medusa_core.market.messages import Item, LoadHeadroom, Offer
from medusa_core.names import Participant

NOTHING_KNOWN = (LoadHeadroom(0, inf),)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A provider that may get an offer: at which level, and how much it would take as far as known,
    counted in fragments of the size `counted_in`; for fragments smaller than `below` alone."""

    status: PayerStatus
    level: int
    room: float
    is_known: bool
    below: float = inf
    counted_in: float = 0.0

    @property
    def price(self) -> float:
        """Currency per hour and unit of load."""
        return self.status.contract.prices[self.level]


def is_overloaded(knowledge: MarketKnowledge) -> bool:
    """Whether it carries more than its threshold."""
    return knowledge.load > knowledge.threshold * (1.0 + SAME_LOAD)


def slots(knowledge: MarketKnowledge) -> int:
    """How many more partners may get an offer now."""
    open_now = sum(1 for s in knowledge.as_payer if s.open and s.unreachable_since_ms is None)
    return knowledge.limits.partners_max - open_now


def candidates(
    knowledge: MarketKnowledge, *, needed: float, raised_below: float, below: float = inf
) -> Iterator[Candidate]:
    """Providers that may get an offer, in no order: each at the lowest level at which it would take
    all that is needed, else at the lowest at which it takes most; `below` a price, and levels above
    the lowest below another."""
    for status, rooms, is_known in usable(knowledge):
        best: LoadHeadroom | None = None
        prices = status.contract.prices
        for room in rooms:
            if room.level >= len(prices) or prices[room.level] >= below:
                break
            if room.level and prices[room.level] >= raised_below:
                break
            best = room
            if room.load >= needed:
                break
        if best is not None:
            most = min(best.load, slack(status.contract.load_max, status.load_there))
            if most > 0.0:
                counted = status.last_answer.smallest if is_known and status.last_answer else 0.0
                yield Candidate(status, best.level, most, is_known, counted_in=counted)


def usable(
    knowledge: MarketKnowledge, *, is_full_too: bool = False
) -> Iterator[tuple[PayerStatus, tuple[LoadHeadroom, ...], bool]]:
    """Contracts under which an offer may be made now, what room there is as far as known, and
    whether that was reported."""
    limits, now = knowledge.limits, knowledge.round
    full = who_asks(knowledge) if knowledge.received else frozenset()
    for status in knowledge.as_payer:
        if status.open is not None or status.unreachable_since_ms is not None:
            continue
        if status.contract.provider in full:
            continue
        last_answer = status.last_answer
        if last_answer is None or last_answer.round + limits.answer_rounds <= now:
            yield status, NOTHING_KNOWN, False
        elif last_answer.rooms or is_full_too:
            yield status, last_answer.rooms, True


def of_other_sizes(knowledge: MarketKnowledge, below: float) -> Iterator[Candidate]:
    """Providers that may get another offer, since their answers were about other sizes.

    A provider without headroom for a large fragment may still take a smaller one. A provider that
    reported less headroom than our smallest fragment updates it only after an offer. Only
    those whose lowest price lies below the given one.
    """
    least: float | None = None
    for status, rooms, is_known in usable(knowledge, is_full_too=True):
        last_answer = status.last_answer
        if not is_known or last_answer is None or status.contract.prices[0] >= below:
            continue
        if least is None:
            least = min((c.item.load for c in knowledge.carried), default=inf)
        smallest = least
        if status.contract.fragments is not None:
            covered = (c.item for c in knowledge.carried if is_covered(c.item, status))
            smallest = min((item.load for item in covered), default=inf)
        if smallest < last_answer.smallest * (1.0 - SAME_LOAD):
            left = slack(status.contract.load_max, status.load_there)
            yield Candidate(status, 0, left, False, last_answer.smallest)
        elif not rooms:
            continue
        elif rooms[0].load * (1.0 + SAME_LOAD) >= smallest:
            # At a dearer level, where more would be taken, it may not pay by difference.
            if rooms[0].level == 0:
                left = min(rooms[0].load, slack(status.contract.load_max, status.load_there))
                yield Candidate(status, 0, left, True, counted_in=last_answer.smallest)
        elif last_answer.smallest * (1.0 + SAME_LOAD) < smallest < inf:
            yield Candidate(status, 0, smallest, False)


def paid_for_room(knowledge: MarketKnowledge) -> float:
    """What partners would pay at most that offered because of an overload; 0 if none did. To make
    room for them may cost anything below, as long as it pays."""
    paid = 0.0
    for status in knowledge.as_provider:
        request = status.request
        if request is not None and request.for_overload:
            paid = max(paid, status.contract.prices[-1])
    return paid * (1.0 - knowledge.limits.dead_band)


def who_asks(knowledge: MarketKnowledge) -> frozenset[Participant]:
    """Partners whose own overload waits here for an answer: to ask them would lead in a circle."""
    asking = {r.offer.contract for r in knowledge.received if r.offer.for_overload}
    return frozenset(s.contract.payer for s in knowledge.as_provider if s.contract.name in asking)


def offers_of_own(knowledge: MarketKnowledge) -> list[MakeOffer]:
    """What pays to hand over; nothing unless a marginal cost lies above a price."""
    free = slots(knowledge)
    if free <= 0 or not knowledge.as_payer or not knowledge.carried:
        return []
    over = is_overloaded(knowledge)
    if not over and any(status.relays for status in knowledge.as_payer):
        return []
    needed = max(knowledge.load - knowledge.threshold, 0.0)
    band = 1.0 + knowledge.limits.dead_band
    slope = knowledge.cost.slope(knowledge.load)
    is_total = knowledge.load >= knowledge.capacity
    raised_below = inf if over else paid_for_room(knowledge) / band
    # A level at which more would be taken, but which does not pay, hides none at which some is.
    dearest = inf if is_total else slope / band
    able = candidates(knowledge, needed=needed, raised_below=raised_below, below=dearest)
    hopeful, doubtful = _by_hope(sorted(able, key=_cheapest_first), knowledge)
    hopeful += sorted(of_other_sizes(knowledge, dearest), key=_cheapest_first)
    is_for_overload = raised_below > 0.0
    offers = _offers_to(hopeful, knowledge, free, is_for_overload)
    # Somebody else may be left at whose price nothing pays by difference.
    return offers or _offers_to(doubtful, knowledge, free, is_for_overload)


def _offers_to(
    chosen: list[Candidate], knowledge: MarketKnowledge, free: int, is_for_overload: bool
) -> list[MakeOffer]:
    """What pays to offer to these, in their order, to so many of them at most."""
    if not chosen:
        return []
    shed = _Shed(knowledge)
    offers: list[MakeOffer] = []
    for number, candidate in enumerate(chosen):
        if free == 0:
            break
        if any(made.offer.contract == candidate.status.contract.name for made in offers):
            continue
        # Of two of whom nothing is known each is offered half.
        halves = free > 1 and number + 1 < len(chosen) and not candidate.is_known
        items = shed.take(candidate, 1 if halves else 0)
        if items:
            offers.append(offer_to(candidate, items, knowledge, is_for_overload))
            free -= 1
    return offers


def handed_over(
    knowledge: MarketKnowledge, offer: Offer, accepted: Sequence[Item]
) -> tuple[Item, ...]:
    """What to hand over now of what a provider accepted of an own offer that does not relay: what
    still pays. The rest lapses: one's load may have fallen since the offer was made."""
    status = next(s for s in knowledge.as_payer if s.contract.name == offer.contract)
    limit = status.contract.prices[offer.level] * (1.0 + knowledge.limits.dead_band)
    load, items = knowledge.load, []
    for item in accepted:
        after = max(load - item.load, 0.0)
        saves = knowledge.cost.cost(load) - knowledge.cost.cost(after)
        if saves > limit * item.load or load >= knowledge.capacity:
            items.append(item)
            load = after
    return tuple(items)


def offer_to(
    candidate: Candidate,
    items: tuple[Item, ...],
    knowledge: MarketKnowledge,
    is_for_overload: bool,
    relays: bool = False,
) -> MakeOffer:
    """The offer of these items."""
    contract = candidate.status.contract
    return MakeOffer(
        to=contract.provider,
        offer=Offer(
            contract=contract.name,
            revision=contract.revision,
            nonce=knowledge.nonce,
            round=knowledge.round,
            level=candidate.level,
            items=items,
            for_overload=is_for_overload,
        ),
        relays=relays,
        because=DecisionReason(
            "a partner's overload can be handed on for less than it pays"
            if relays
            else "handing it over costs less than keeping it",
            {
                "price": candidate.price,
                "marginal_cost": knowledge.cost.slope(knowledge.load),
                "load": knowledge.load,
                "threshold": knowledge.threshold,
            },
        ),
    )


def movable(knowledge: MarketKnowledge) -> Iterator[CarriedLoad]:
    """What may be offered now, in order: neither in transit, nor in an open offer, nor new here."""
    busy = {
        (item.fragment, item.partition)
        for status in knowledge.as_payer
        if status.open is not None and status.unreachable_since_ms is None
        for item in status.open.items
    }
    residence_ms = knowledge.limits.residence_ms
    since_ms = knowledge.clock_ms - residence_ms
    if knowledge.load >= knowledge.capacity:
        residence_ms = 0
    for carried in knowledge.carried:
        if carried.in_flight:
            continue
        if residence_ms and carried.contract is not None and carried.since_ms > since_ms:
            continue
        if busy and (carried.item.fragment, carried.item.partition) in busy:
            continue
        yield carried


def is_covered(item: Item, status: PayerStatus) -> bool:
    """Whether the contract lets this fragment move."""
    fragments = status.contract.fragments
    return fragments is None or item.fragment in fragments


def _by_hope(
    chosen: list[Candidate], knowledge: MarketKnowledge
) -> tuple[list[Candidate], list[Candidate]]:
    """Providers to prefer, and those of which it is only known that they made offers in an
    overload themselves; these get an offer only if no offer to another pays."""
    over = {
        s.contract.payer
        for s in knowledge.as_provider
        if s.request is not None and s.request.for_overload
    }
    if not over:
        return chosen, []
    hopeful: list[Candidate] = []
    doubtful: list[Candidate] = []
    for c in chosen:
        is_hopeful = c.is_known or c.status.contract.provider not in over
        (hopeful if is_hopeful else doubtful).append(c)
    return (hopeful, doubtful) if hopeful else (doubtful, [])


def _cheapest_first(candidate: Candidate) -> tuple[float, bool, float, int]:
    return (
        candidate.price,
        not candidate.is_known,
        -candidate.room if candidate.is_known else 0.0,
        candidate.status.contract.spread,
    )


class _Shed:
    """What is left while offers are filled: each fragment goes into one offer at most."""

    def __init__(self, knowledge: MarketKnowledge) -> None:
        self._knowledge = knowledge
        self._left = list(movable(knowledge))
        pending = [
            (status.contract.prices[status.open.level], status.open.load)
            for status in knowledge.as_payer
            if status.open is not None and status.unreachable_since_ms is None and not status.relays
        ]
        self._load = max(knowledge.load - sum(load for _, load in pending), 0.0)
        # What waits must still pay when what is offered now has gone before it.
        self._dearest = max((price for price, _ in pending), default=0.0)

    def take(self, candidate: Candidate, others: int) -> tuple[Item, ...]:
        """Items that pay at the candidate's price; if there is another candidate, half of them."""
        chosen = self._paying(candidate)
        if others:
            chosen = chosen[: (len(chosen) + others) // (others + 1)]
        if not chosen:
            return ()
        if len(chosen) == chosen[-1] + 1:
            items = tuple(carried.item for carried in self._left[: len(chosen)])
            del self._left[: len(chosen)]
        else:
            items = tuple(self._left[at].item for at in chosen)
            gone = set(chosen)
            self._left = [c for at, c in enumerate(self._left) if at not in gone]
        self._load = max(self._load - sum(item.load for item in items), 0.0)
        self._dearest = max(self._dearest, candidate.price)
        return items

    def _paying(self, candidate: Candidate) -> list[int]:
        knowledge, status = self._knowledge, candidate.status
        limits: MarketLimits = knowledge.limits
        cost = knowledge.cost.cost
        limit = max(candidate.price, self._dearest) * (1.0 + limits.dead_band)
        room = candidate.room * (1.0 + SAME_LOAD)
        # Larger fragments may not fit into room that was counted in smaller ones, which a relay
        # makes piece by piece: then as many of those are offered as well.
        rooms, small = [room, room], candidate.counted_in * (1.0 + SAME_LOAD)
        # Above the lowest price only the overload is handed over.
        least = 0.0
        if candidate.level and is_overloaded(knowledge):
            least = knowledge.threshold * (1.0 + SAME_LOAD)
        now = self._load
        now_cost = cost(now)
        total = knowledge.capacity
        is_any = status.contract.fragments is None
        chosen: list[int] = []
        # Headroom reported at a dearer level is sure for fragments up to `small`, so those come
        # first. If a larger fragment were offered first and declined, the reported headroom would
        # be forgotten, and every size would be offered again from the lowest level on, without end.
        sure = small if candidate.level else 0.0
        for at, carried in sorted(enumerate(self._left), key=lambda one: one[1].item.load > sure):
            load = carried.item.load
            is_small = load <= small
            if load > rooms[is_small] or load >= candidate.below * (1.0 - SAME_LOAD):
                continue
            if not (is_any or is_covered(carried.item, status)):
                continue
            if now <= least or len(chosen) >= limits.items_max:
                break
            after = max(now - load, 0.0)
            after_cost = cost(after)
            if now_cost - after_cost <= limit * load and now < total:
                if knowledge.cost.slope(now) <= limit:
                    break
                continue
            chosen.append(at)
            now, now_cost = after, after_cost
            rooms[is_small] -= load
        chosen.sort()
        return chosen
