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
    AcceptedItems,
    LastAnswer,
    PayerStatus,
    ProviderStatus,
    RequestedLoad,
)
from medusa_core.market.messages import Answer, Item, Offer, Reason

PASSED_ROUNDS = 8
"""For so many rounds no offer is made to a provider that could not weigh one."""


def after_offering(status: PayerStatus, made: MakeOffer) -> PayerStatus:
    """The payer has made an offer."""
    return replace(status, open=made.offer, relays=made.relays, accepted=None)


def after_being_answered(status: PayerStatus, answer: Answer, at_round: int) -> PayerStatus:
    """The payer has its answer, in its own round `at_round`; what an own offer that relays was
    granted waits to be handed on until `after_round`."""
    offer = status.open
    accepted = None
    if offer is not None and status.relays and answer.accepted:
        accepted = AcceptedItems(offer.level, answer.accepted)
    return replace(
        status,
        open=None,
        relays=False,
        accepted=accepted,
        last_answer=_last_answer_to(offer, answer, at_round) or status.last_answer,
        unreachable_since_ms=None,
    )


def last_answer_from(
    answer: Answer, at_round: int, level: int | None, smallest: float
) -> LastAnswer | None:
    """What an answer to an offer at `level` tells of the provider's room (None: it is word of room,
    sent once more), counted in items as large as the `smallest` offered; None if it says nothing of
    it."""
    if not answer.reason.reports_headroom:
        return None
    rooms = answer.rooms
    if level is not None and not answer.accepted:
        # Whoever tells of room at a level at which it took nothing is not believed.
        rooms = rooms_above(rooms, level)
    return LastAnswer(rooms, at_round, smallest)


def is_passed_over(answer: Answer, at_round: int, now_round: int) -> bool:
    """Whether a provider that could not weigh an offer is left alone for now: it may next time, but
    others come first."""
    return answer.reason is Reason.UNWEIGHED and now_round < at_round + PASSED_ROUNDS


def lowest_taken(prices: Iterable[float]) -> float:
    """Below which price what comes on top in a round may cost at most: the lowest at which load was
    accepted in it already (infinite: none was)."""
    return min(prices, default=inf)


def after_report(status: PayerStatus, answer: Answer, at_round: int) -> PayerStatus:
    """The payer received a report of headroom."""
    smallest = status.last_answer.smallest if status.last_answer is not None else 0.0
    last_answer = LastAnswer(answer.rooms, at_round, smallest)
    return replace(status, last_answer=last_answer, unreachable_since_ms=None)


def after_handing_on(status: PayerStatus, items: Collection[Item]) -> PayerStatus:
    """The payer hands on some of what it was granted; only the rest waits any longer."""
    granted = status.accepted
    if granted is None:
        return status
    left = tuple(item for item in granted.items if item not in items)
    return replace(status, accepted=AcceptedItems(granted.level, left) if left else None)


def after_round(status: PayerStatus) -> PayerStatus:
    """A round has ended: what was granted in it and not handed on has lapsed."""
    return status if status.accepted is None else replace(status, accepted=None)


def after_answering(status: ProviderStatus, offer: Offer, answer: Answer) -> ProviderStatus:
    """The provider has answered: what the payer still wants is remembered."""
    taken = sum(item.load for item in answer.accepted)
    request = status.request
    smallest = min(item.load for item in offer.items)
    load = max(offer.load, 0.0 if request is None else request.load) - taken
    if load < smallest * ITEM_SLACK:
        load = 0.0
    if request is not None and not answer.accepted:
        # Headroom was reported to it in vain. It counts half each time, so reports end.
        load = min(offer.load, request.load or offer.load) / 2.0
    return replace(
        status,
        request=RequestedLoad(
            offer=offer.nonce,
            load=load,
            smallest=smallest,
            for_overload=offer.for_overload,
            reported_level=lowest_level(answer),
        ),
    )


def after_reporting(status: ProviderStatus, answer: Answer) -> ProviderStatus:
    """The provider has reported headroom to the payer."""
    if status.request is None:
        return status
    return replace(status, request=replace(status.request, reported_level=lowest_level(answer)))


def _last_answer_to(offer: Offer | None, answer: Answer, at_round: int) -> LastAnswer | None:
    if offer is None:
        return last_answer_from(answer, at_round, None, 0.0)
    return last_answer_from(answer, at_round, offer.level, min(item.load for item in offer.items))


def lowest_level(answer: Answer) -> int | None:
    """The lowest level at which an answer tells of room."""
    return answer.rooms[0].level if answer.rooms else None
