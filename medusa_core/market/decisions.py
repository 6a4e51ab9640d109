"""Decisions of the market, as data with a reason in numbers: applied, explained and simulated."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from medusa_core.decisions import DecisionReason
from medusa_core.market.knowledge import MovedLoad, ReceivedOffer
from medusa_core.market.messages import Answer, Item, Offer
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeOffer:
    """Offer load to a provider. What it accepts of an offer that `relays` is handed over only when
    a `HandOn` says so; of any other offer all that is accepted is handed over."""

    to: Participant
    offer: Offer
    relays: bool
    because: DecisionReason


@dataclass(frozen=True, slots=True)
class HandOn:
    """Before `item` is taken, `leaves` (each under the contract that accepted it) are handed on."""

    item: Item
    leaves: tuple[tuple[ContractName, Item], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveAnswer:
    """Answer an offer. `hands_on` names what makes room for accepted items, in order; what was
    accepted of one's own relaying offers and is not named lapses with the round."""

    to: Participant
    received: ReceivedOffer
    answer: Answer
    because: DecisionReason
    hands_on: tuple[HandOn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepOpen:
    """Do not answer an offer yet: one's own offers on its behalf are not answered, or not made."""

    received: ReceivedOffer
    because: DecisionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerLoad:
    """Hand on what partners accepted of one's own relaying offers, although nothing is taken for it
    yet: it pays by itself, and one carries too much to take load at the price that is offered."""

    leaves: tuple[tuple[ContractName, Item], ...]
    because: DecisionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportHeadroom:
    """Tell a payer that was declined that there is room: an answer once more, without items."""

    to: Participant
    answer: Answer
    because: DecisionReason


@dataclass(frozen=True, slots=True, kw_only=True)
class EndMove:
    """End a move: take a fragment back from its provider, or give one back to its payer."""

    moved: MovedLoad
    because: DecisionReason


MarketDecision = MakeOffer | GiveAnswer | KeepOpen | LowerLoad | ReportHeadroom | EndMove


def explain(decisions: Iterable[MarketDecision]) -> list[str]:
    """One line for each decision: what and why."""
    return [f"{_what(decision)}: {decision.because}" for decision in decisions]


def _what(decision: MarketDecision) -> str:
    match decision:
        case MakeOffer():
            offer = decision.offer
            return f"offer {decision.to} {_items(offer.items)} at level {offer.level}"
        case GiveAnswer():
            offered, accepted = decision.received.offer.items, decision.answer.accepted
            if not accepted:
                return f"decline {_items(offered)} of {decision.to}"
            return f"accept {_items(accepted)} of {len(offered)} from {decision.to}"
        case KeepOpen():
            return f"keep open the offer under {decision.received.offer.contract}"
        case LowerLoad():
            return f"hand on {_items(tuple(item for _, item in decision.leaves))}"
        case ReportHeadroom():
            return f"tell {decision.to} of room"
        case EndMove(moved=moved):
            verb = "take" if moved.is_given else "give"
            return f"{verb} {moved.item.fragment} back under {moved.contract}"


def _items(items: tuple[Item, ...]) -> str:
    return f"{len(items)} fragment{'s' if len(items) != 1 else ''}"
