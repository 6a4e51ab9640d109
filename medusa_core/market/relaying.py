"""Relaying: passing a partner's overload on to other partners at a lower price.

A full participant accepts load at one price and hands as much of its own on at a lower one. The
offer of the overloaded partner is kept open meanwhile. Load is accepted and handed on
alternately, so that each single move pays at the margin, however many there are; nothing is
handed on that is not accepted, so there is no risk.

Source: NSDI 2004, prices in a range (what a full partner relays).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from medusa_core.market.costs import CostFunction, marginal_cost_of_removing
from medusa_core.market.decisions import HandOn, MakeOffer
from medusa_core.market.headroom import SAME_LOAD, above, pays_to_take, room_at, slack
from medusa_core.market.knowledge import CarriedLoad, MarketKnowledge
from medusa_core.market.messages import Item
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
from medusa_core.names import Participant

LEAVE_MAX = 64
"""What leaves to make room for one item, at most."""


class RelayHeadroom(NamedTuple):
    """So much more load could be handed on to a provider at a price (dead band included)."""

    price: float
    load: float
    provider: Participant


def relay_headroom(knowledge: MarketKnowledge, unknown: float) -> list[RelayHeadroom]:
    """Where load could be handed on as far as known, the cheapest first; to one of whom nothing is
    known `unknown`. None for one that has an overload of its own."""
    if not knowledge.as_payer or not knowledge.carried or is_overloaded(knowledge):
        return []
    band = _band(knowledge)
    relays: list[RelayHeadroom] = []
    for status, rooms, is_known in usable(knowledge):
        left = slack(status.contract.load_max, status.load_there)
        before = 0.0
        for room in rooms:
            if room.level > status.contract.top:
                break
            price = status.contract.prices[room.level] * band
            more = min(room.load if is_known else unknown, left) - before
            if more > 0.0:
                relays.append(RelayHeadroom(price, more, status.contract.provider))
                before += more
    relays.sort()
    return relays


def rooms_by_relay(
    relays: Sequence[RelayHeadroom],
    prices: Sequence[float],
    knowledge: MarketKnowledge,
    load: float,
    rooms: Sequence[float],
    item: float,
) -> list[float]:
    """How much could be taken on top of `load` at each of these levels, in items of this size: into
    the `rooms` that there are, and by handing on. Of what is handed on, some may only bring one's
    own load down."""
    band = knowledge.limits.dead_band
    loads: list[float] = []
    for price, room in zip(prices, rooms, strict=True):
        limit = price * (1.0 - band)
        if relays[0].price >= limit:
            loads.append(room)
            continue
        too_much = 0.0
        if not room:
            too_much = max(above(knowledge.cost, load, limit, item) - item, 0.0)
        full = load + room - too_much
        if full < 0.0:
            loads.append(room)
            continue
        pays = min(limit, marginal_cost_of_removing(knowledge.cost, full, item)) if full else 0.0
        total = sum(relay.load for relay in relays if relay.price < pays)
        loads.append(max(room + total - too_much, room))
    return loads


def offers_on(knowledge: MarketKnowledge) -> list[MakeOffer]:
    """Offers on behalf of those that are kept open here."""
    contracts = {s.contract.name: s.contract for s in knowledge.as_provider}
    kept = [
        r.offer
        for r in knowledge.received
        if r.offer.for_overload
        and r.offer.contract in contracts
        # What quotes another revision will be declined: its level may be none of today's.
        and r.offer.revision == contracts[r.offer.contract].revision
    ]
    free = slots(knowledge)
    if not kept or free <= 0 or is_overloaded(knowledge) or _sheds(knowledge):
        return []
    needed = [
        (
            contracts[offer.contract].prices[offer.level] * (1.0 - knowledge.limits.dead_band),
            offer.load,
        )
        for offer in kept
    ]
    pending = sum(s.open.load for s in knowledge.as_payer if s.open is not None and s.relays)
    dearest = max(price for price, _ in needed)
    smallest = min(item.load for offer in kept for item in offer.items)
    cost, load = knowledge.cost, knowledge.load
    room = room_at(cost, load, knowledge.threshold, dearest, smallest)
    # To take one at that price one's own load may have to go first: it costs more than that.
    too_much = 0.0 if room else max(above(cost, load, dearest, smallest) - smallest, 0.0)
    full = load + room - too_much
    if full < 0.0:
        return []
    pending += room - too_much
    most = sum(load for _, load in needed) - pending
    chosen = sorted(
        candidates(knowledge, needed=most, raised_below=inf, below=dearest / _band(knowledge)),
        key=lambda c: (c.price, c.status.contract.spread),
    )
    left = deque(movable(knowledge))
    offers: list[MakeOffer] = []
    for candidate in chosen:
        limit = candidate.price * _band(knowledge)
        most = sum(load for price, load in needed if price > limit) - pending
        if free > 1 and len(chosen) > 1 and not candidate.is_known:
            most /= 2.0
        items = _take(left, candidate, min(most, candidate.room), limit, full, knowledge)
        if items:
            offers.append(offer_to(candidate, items, knowledge, True, relays=True))
            pending += sum(item.load for item in items)
            free -= 1
        if free == 0:
            break
    return offers


def _take(
    left: deque[CarriedLoad],
    candidate: Candidate,
    most: float,
    limit: float,
    full: float,
    knowledge: MarketKnowledge,
) -> tuple[Item, ...]:
    """Items until `most` is reached, each of which pays to hand on when one is full at the price
    that is paid."""
    cost = knowledge.cost
    carries, total = cost.cost(full), 0.0
    items: list[Item] = []
    passed: list[CarriedLoad] = []
    while left and total < most * (1.0 - SAME_LOAD) and len(items) < knowledge.limits.items_max:
        item = left[0].item
        saves = carries - cost.cost(max(full - item.load, 0.0))
        fits = total + item.load <= candidate.room * (1.0 + SAME_LOAD)
        if saves > limit * item.load and fits and is_covered(item, candidate.status):
            items.append(item)
            total += item.load
            left.popleft()
        else:
            passed.append(left.popleft())
    left.extendleft(reversed(passed))
    return tuple(items)


def _sheds(knowledge: MarketKnowledge) -> bool:
    """Whether an offer of its own waits: it either offers or relays at a time."""
    return any(s.open is not None and not s.relays for s in knowledge.as_payer)


@dataclass(frozen=True, slots=True)
class LoadSwap:
    """How many leave before an item is taken, or else after it, and the load carried then."""

    before: int
    after: int
    load: float


def exchange(
    cost: CostFunction,
    load: float,
    threshold: float,
    limit: float,
    item: float,
    leaves: Sequence[tuple[float, float]],
) -> LoadSwap | None:
    """How an item can be taken below `limit` a unit where these (price with its dead band, load)
    may leave: as it pays at the margin, move by move, and together; None if it does not.

    It is taken first where there is room, and only then something leaves; else what leaves makes
    room. Of what may leave, no more goes than is needed for that.
    """
    if pays_to_take(cost, load, threshold, limit, item):
        now, gone = load + item, 0
        for price, leaving in leaves:
            saves = cost.cost(now) - cost.cost(max(now - leaving, 0.0))
            if gone or saves <= price * leaving:
                break
            now, gone = max(now - leaving, 0.0), gone + 1
        return LoadSwap(0, gone, now)
    now, gain = load, 0.0
    for number, (price, leaving) in enumerate(leaves, 1):
        after = max(now - leaving, 0.0)
        saves = cost.cost(now) - cost.cost(after)
        if price >= limit or saves <= price * leaving:
            return None
        now, gain = after, gain + saves - price * leaving
        if pays_to_take(cost, now, threshold, limit, item):
            gain += limit * item - (cost.cost(now + item) - cost.cost(now))
            return LoadSwap(number, 0, now + item) if gain > 0.0 else None
    return None


class Relay:
    """What partners accepted of one's own relaying offers in this round: it leaves, cheapest first,
    as it is needed to make room."""

    def __init__(self, knowledge: MarketKnowledge) -> None:
        self._knowledge = knowledge
        band = _band(knowledge)
        leaving = [
            (s.contract.prices[s.accepted.level] * band, s.contract.name, item)
            for s in knowledge.as_payer
            if s.accepted is not None
            for item in s.accepted.items
        ]
        leaving.sort(key=_by_price)
        self._leaving = [] if is_overloaded(knowledge) else leaving

    def lower(self, load: float, item: float, limit: float) -> list[tuple[ContractName, Item]]:
        """What leaves by itself, each as it pays, to come down to where such an item could be taken
        below `limit` a unit once another leaves."""
        cost = self._knowledge.cost
        leaves: list[tuple[ContractName, Item]] = []
        while self._leaving:
            price, contract, leaving = self._leaving[0]
            after = max(load - leaving.load, 0.0)
            if above(cost, load, limit, item) <= item * (1.0 + SAME_LOAD):
                break
            if cost.cost(load) - cost.cost(after) <= price * leaving.load:
                break
            leaves.append((contract, leaving))
            del self._leaving[0]
            load = after
        return leaves

    @property
    def is_empty(self) -> bool:
        """Whether nothing may leave."""
        return not self._leaving

    def make_room(
        self, load: float, item: Item, limit: float, on_top: float
    ) -> tuple[HandOn, float] | None:
        """What leaves so that the item can be taken below `limit` a unit, carrying `load`, and what
        is carried then; None if it cannot. What is more then than before costs less than `on_top` a
        unit: what was taken for that in the round may come after it."""
        knowledge = self._knowledge
        leaves = [(price, leaving.load) for price, _, leaving in self._leaving[:LEAVE_MAX]]
        found = exchange(knowledge.cost, load, knowledge.threshold, limit, item.load, leaves)
        if found is None:
            return None
        more = found.load - load
        if on_top < limit and more > load * SAME_LOAD:
            adds = knowledge.cost.cost(found.load) - knowledge.cost.cost(load)
            if adds >= on_top * more:
                return None
        gone = found.before + found.after
        hand_on = HandOn(item, tuple((name, out) for _, name, out in self._leaving[:gone]))
        del self._leaving[:gone]
        return hand_on, found.load


def _by_price(leaving: tuple[float, ContractName, Item]) -> float:
    return leaving[0]


def _band(knowledge: MarketKnowledge) -> float:
    return 1.0 + knowledge.limits.dead_band
