"""How knowledge of a partner changes by an offer, an answer or a report of headroom.

Messages that do not reply to a message that was sent are refused before they arrive here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from math import inf

from medusa_core.market.decisions import MakeOffer
from medusa_core.market.headroom import ITEM_SLACK, rooms_above
from medusa_core.market.knowledge import (
    Accepted,
    PayerStanding,
    ProviderStanding,
    Told,
    Wanted,
)
from medusa_core.market.messages import Answer, Item, Offer, Reason

PASSED_ROUNDS = 8
"""For so many rounds a provider is not asked again that could not weigh an offer."""


def after_offering(standing: PayerStanding, made: MakeOffer) -> PayerStanding:
    """The payer has made an offer."""
    return replace(standing, open=made.offer, relays=made.relays, accepted=None)


def after_being_answered(standing: PayerStanding, answer: Answer, at_round: int) -> PayerStanding:
    """The payer has its answer, in its own round `at_round`; what an own offer that relays was
    granted waits to be handed on until `after_round`."""
    offer = standing.open
    accepted = None
    if offer is not None and standing.relays and answer.accepted:
        accepted = Accepted(offer.level, answer.accepted)
    return replace(
        standing,
        open=None,
        relays=False,
        accepted=accepted,
        told=_told_of(offer, answer, at_round) or standing.told,
        unreachable_since_ms=None,
    )


def told_by(answer: Answer, at_round: int, level: int | None, smallest: float) -> Told | None:
    """What an answer to an offer at `level` tells of the provider's room (None: it is word of room,
    sent once more), counted in items as large as the `smallest` offered; None if it says nothing of
    it."""
    if not answer.reason.tells_room:
        return None
    rooms = answer.rooms
    if level is not None and not answer.accepted:
        # Whoever tells of room at a level at which it took nothing is not believed.
        rooms = rooms_above(rooms, level)
    return Told(rooms, at_round, smallest)


def is_passed_over(answer: Answer, at_round: int, now_round: int) -> bool:
    """Whether a provider that could not weigh an offer is left alone for now: it may next time, but
    others are to have their turn before."""
    return answer.reason is Reason.UNWEIGHED and now_round < at_round + PASSED_ROUNDS


def lowest_taken(prices: Iterable[float]) -> float:
    """Below which price what comes on top in a round may cost at most: the lowest at which load was
    accepted in it already (infinite: none was)."""
    return min(prices, default=inf)


def after_being_told(standing: PayerStanding, answer: Answer, at_round: int) -> PayerStanding:
    """The payer was told of room."""
    smallest = standing.told.smallest if standing.told is not None else 0.0
    told = Told(answer.rooms, at_round, smallest)
    return replace(standing, told=told, unreachable_since_ms=None)


def after_handing_on(standing: PayerStanding, items: Collection[Item]) -> PayerStanding:
    """The payer hands on some of what it was granted; only the rest waits any longer."""
    granted = standing.accepted
    if granted is None:
        return standing
    left = tuple(item for item in granted.items if item not in items)
    return replace(standing, accepted=Accepted(granted.level, left) if left else None)


def after_round(standing: PayerStanding) -> PayerStanding:
    """A round has ended: what was granted in it and not handed on has lapsed."""
    return standing if standing.accepted is None else replace(standing, accepted=None)


def after_answering(standing: ProviderStanding, offer: Offer, answer: Answer) -> ProviderStanding:
    """The provider has answered: what the payer still wants is remembered."""
    taken = sum(item.load for item in answer.accepted)
    wanted = standing.wanted
    smallest = min(item.load for item in offer.items)
    load = max(offer.load, 0.0 if wanted is None else wanted.load) - taken
    if load < smallest * ITEM_SLACK:
        load = 0.0
    if wanted is not None and not answer.accepted:
        # It was told of room in vain. As it counts half each time, it is not told for ever.
        load = min(offer.load, wanted.load or offer.load) / 2.0
    return replace(
        standing,
        wanted=Wanted(
            offer=offer.nonce,
            load=load,
            smallest=smallest,
            for_overload=offer.for_overload,
            told_level=lowest_level(answer),
        ),
    )


def after_telling(standing: ProviderStanding, answer: Answer) -> ProviderStanding:
    """The provider has told the payer of room."""
    if standing.wanted is None:
        return standing
    return replace(standing, wanted=replace(standing.wanted, told_level=lowest_level(answer)))


def _told_of(offer: Offer | None, answer: Answer, at_round: int) -> Told | None:
    if offer is None:
        return told_by(answer, at_round, None, 0.0)
    return told_by(answer, at_round, offer.level, min(item.load for item in offer.items))


def lowest_level(answer: Answer) -> int | None:
    """The lowest level at which an answer tells of room."""
    return answer.rooms[0].level if answer.rooms else None
