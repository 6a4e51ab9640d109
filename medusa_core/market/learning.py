"""What a participant knows after something was said: how a standing changes by an offer, an answer,
a word of room. Messages that are none to what was said change nothing: `check_answer` refuses them.
"""

from __future__ import annotations

from dataclasses import replace

from medusa_core.market.decisions import MakeOffer
from medusa_core.market.knowledge import (
    Accepted,
    PayerStanding,
    ProviderStanding,
    Told,
    Wanted,
)
from medusa_core.market.messages import Answer, Offer
from medusa_core.market.rooms import SAME_LOAD


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
        told=Told(answer.room, at_round),
        unreachable_since_ms=None,
    )


def after_being_told(standing: PayerStanding, answer: Answer, at_round: int) -> PayerStanding:
    """The payer was told of room."""
    return replace(standing, told=Told(answer.room, at_round), unreachable_since_ms=None)


def after_round(standing: PayerStanding) -> PayerStanding:
    """A round has ended: what was granted in it and not handed on has lapsed."""
    return standing if standing.accepted is None else replace(standing, accepted=None)


def after_answering(standing: ProviderStanding, offer: Offer, answer: Answer) -> ProviderStanding:
    """The provider has answered: what the payer still wants is remembered."""
    taken = sum(item.load for item in answer.accepted)
    before = standing.wanted.load if standing.wanted is not None else 0.0
    wanted = max(before, offer.load) - taken
    if wanted <= SAME_LOAD * offer.load:
        return standing if standing.wanted is None else replace(standing, wanted=None)
    return replace(
        standing,
        wanted=Wanted(
            offer=offer.nonce,
            level=offer.level,
            load=wanted,
            smallest=min(item.load for item in offer.items),
            for_overload=offer.for_overload,
            is_told=answer.room is not None,
        ),
    )


def after_telling(standing: ProviderStanding) -> ProviderStanding:
    """The provider has told the payer of room."""
    if standing.wanted is None:
        return standing
    return replace(standing, wanted=replace(standing.wanted, is_told=True))
