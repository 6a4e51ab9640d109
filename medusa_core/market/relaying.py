"""Relaying: a full participant takes a partner's overload at one price and hands as much of its own
load on at a lower one.

The offer of the overloaded partner is kept open meanwhile. Load is taken and handed on in turn, so
that each single move pays at the margin, however many there are; nothing is handed on that is not
taken, and so nothing is risked.

Source: NSDI 2004, prices in a range (what a full partner relays).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from medusa_core.market.costs import CostFunction, marginal_cost_of_removing
from medusa_core.market.decisions import HandOn, MakeOffer
from medusa_core.market.knowledge import Carried, MarketKnowledge
from medusa_core.market.messages import Item
from medusa_core.market.rooms import SAME_LOAD, above, pays_to_take, slack
from medusa_core.market.shedding import (
    Candidate,
    candidates,
    is_covered,
    is_overloaded,
    movable,
    offer_to,
    slots,
    usable,
)
from medusa_core.market.terms import ContractName


def ways_on(knowledge: MarketKnowledge) -> list[tuple[float, float]]:
    """At which prices (dead band included, rising) load could be handed on as far as known, and how
    much more at each; none for one that has an overload of its own, or whose marginal cost is below
    all prices."""
    if not knowledge.as_payer or not knowledge.carried or is_overloaded(knowledge):
        return []
    load, smallest = knowledge.load, knowledge.carried[-1].item.load
    saves = marginal_cost_of_removing(knowledge.cost, load, smallest)
    band = _band(knowledge)
    ways = []
    for standing, rooms, _ in usable(knowledge):
        left = slack(standing.contract.load_max, standing.load_there)
        before = 0.0
        for room in rooms:
            if room.level > standing.contract.top:
                break
            price = standing.contract.prices[room.level] * band
            more = min(room.load, left) - before
            if price < saves and more > 0.0:
                ways.append((price, more))
                before += more
    ways.sort()
    return ways


def rooms_by_relay(
    ways: Sequence[tuple[float, float]],
    prices: Sequence[float],
    knowledge: MarketKnowledge,
    wanted: float,
    item: float,
) -> list[float]:
    """How much could be handed on at each of these levels, in items of this size, no more than is
    wanted. Of what is handed on, some may only bring one's own load down to the price."""
    band = knowledge.limits.dead_band
    rooms: list[float] = []
    total, at = 0.0, 0
    for price in prices:
        while at < len(ways) and ways[at][0] < price * (1.0 - band):
            total += ways[at][1]
            at += 1
        room = 0.0
        if total:
            too_much = above(knowledge.cost, knowledge.load, price * (1.0 - band), item)
            room = max(min(total - max(too_much - item, 0.0), wanted), 0.0)
        rooms.append(room)
    return rooms


def offers_on(knowledge: MarketKnowledge) -> list[MakeOffer]:
    """Offers on behalf of those that are kept open here."""
    kept = [r.offer for r in knowledge.received if r.offer.for_overload]
    free = slots(knowledge)
    if not kept or free <= 0 or is_overloaded(knowledge) or _sheds(knowledge):
        return []
    prices = {s.contract.name: s.contract.prices for s in knowledge.as_provider}
    wanted = [
        (prices[offer.contract][offer.level] * (1.0 - knowledge.limits.dead_band), offer.load)
        for offer in kept
        if offer.contract in prices
    ]
    pending = sum(s.open.load for s in knowledge.as_payer if s.open is not None and s.relays)
    if not wanted:
        return []
    # To take one at that price one's own load may have to go first: it costs more than that.
    dearest = max(price for price, _ in wanted)
    smallest = min(item.load for offer in kept for item in offer.items)
    pending -= max(above(knowledge.cost, knowledge.load, dearest, smallest) - smallest, 0.0)
    most = sum(load for _, load in wanted) - pending
    asked = sorted(
        candidates(knowledge, is_for_overload=True, wanted=most, below=dearest / _band(knowledge)),
        key=lambda c: (c.price, not c.is_known, -c.room, c.standing.contract.spread),
    )
    left = deque(movable(knowledge))
    offers: list[MakeOffer] = []
    for candidate in asked:
        limit = candidate.price * _band(knowledge)
        most = sum(load for price, load in wanted if price > limit) - pending
        if free > 1 and len(asked) > 1 and not candidate.is_known:
            most /= 2.0
        items = _take(left, candidate, min(most, candidate.room), limit, knowledge)
        if items:
            offers.append(offer_to(candidate, items, knowledge, True, relays=True))
            pending += sum(item.load for item in items)
            free -= 1
        if free == 0:
            break
    return offers


def _take(
    left: deque[Carried],
    candidate: Candidate,
    most: float,
    limit: float,
    knowledge: MarketKnowledge,
) -> tuple[Item, ...]:
    """Items until `most` is reached, each of which pays to hand on by itself."""
    cost, load = knowledge.cost, knowledge.load
    carries, total = cost.cost(load), 0.0
    items: list[Item] = []
    passed: list[Carried] = []
    while left and total < most * (1.0 - SAME_LOAD) and len(items) < knowledge.limits.items_max:
        item = left[0].item
        saves = carries - cost.cost(max(load - item.load, 0.0))
        fits = total + item.load <= candidate.room * (1.0 + SAME_LOAD)
        if saves > limit * item.load and fits and is_covered(item, candidate.standing):
            items.append(item)
            total += item.load
            left.popleft()
        else:
            passed.append(left.popleft())
    left.extendleft(reversed(passed))
    return tuple(items)


def _sheds(knowledge: MarketKnowledge) -> bool:
    """Whether an offer of its own waits: only one of both ways is gone at a time."""
    return any(s.open is not None and not s.relays for s in knowledge.as_payer)


class Relay:
    """What partners accepted of one's own relaying offers in this round: it leaves, cheapest first,
    as it is needed to make room."""

    def __init__(self, knowledge: MarketKnowledge) -> None:
        band = _band(knowledge)
        self._cost: CostFunction = knowledge.cost
        self._threshold = knowledge.threshold
        self._load = knowledge.load
        leaving = [
            (s.contract.prices[s.accepted.level] * band, s.contract.name, item)
            for s in knowledge.as_payer
            if s.accepted is not None
            for item in s.accepted.items
        ]
        self._leaving = sorted(leaving, key=_by_price)

    @property
    def is_empty(self) -> bool:
        """Whether nothing may leave."""
        return not self._leaving

    def make_room(self, item: Item, limit: float) -> HandOn | None:
        """What leaves so that the item can be taken below `limit` a unit: all of it together must
        gain; None if it does not."""
        load, gain = self._load, 0.0
        leaves: list[tuple[ContractName, Item]] = []
        for price, contract, leaving in self._leaving:
            if pays_to_take(self._cost, load, self._threshold, limit, item.load):
                break
            after = max(load - leaving.load, 0.0)
            saves = self._cost.cost(load) - self._cost.cost(after)
            if price >= limit or (not leaves and saves <= price * leaving.load):
                return None
            gain += saves - price * leaving.load
            load = after
            leaves.append((contract, leaving))
        if not pays_to_take(self._cost, load, self._threshold, limit, item.load):
            return None
        gain += limit * item.load - (self._cost.cost(load + item.load) - self._cost.cost(load))
        if gain <= 0.0:
            return None
        self._load = load + item.load
        del self._leaving[: len(leaves)]
        return HandOn(item, tuple(leaves))


def _by_price(leaving: tuple[float, ContractName, Item]) -> float:
    return leaving[0]


def _band(knowledge: MarketKnowledge) -> float:
    return 1.0 + knowledge.limits.dead_band
