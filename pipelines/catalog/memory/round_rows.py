"""The rows of a market in memory: offers, agreed moves, and the tables that hold them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Any

from medusa_core.errors import Refused
from medusa_core.market.knowledge import RequestedLoad
from medusa_core.market.messages import Answer, Item, Nonce, Offer
from medusa_core.market.terms import ContractName, Movement, Revision, Terms
from medusa_core.names import Participant
from pipelines.catalog.round_store import AgreedMove, Silence


class MoveState(Enum):
    """How far a move has come; the first three are the database's."""

    GRANTED = "granted"
    ACCEPTED = "accepted"
    LAPSED = "lapsed"
    MOVED = "moved"


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferRow:
    """An offer that was made or came."""

    offer_id: int
    is_own: bool
    partner: Participant
    relays: bool
    round: int
    made_at_ms: int
    offer: Offer

    @property
    def key(self) -> tuple[bool, Participant, ContractName, Nonce]:
        """What no two have in common."""
        return self.is_own, self.partner, self.offer.contract, self.offer.nonce


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveRow:
    """A fragment that is given or taken: `makes_room_for` another move of this home."""

    move_id: int
    is_given: bool
    partner: Participant
    contract: ContractName
    item: Item
    level: int
    price: Decimal
    round: int
    expires_at_ms: int
    state: MoveState
    makes_room_for: int | None = None
    since_ms: int = 0


@dataclass(slots=True)
class Tables:
    """What a home keeps of rounds; rows are values, so that a copy of the tables is one of all."""

    changes: int = 0
    decided_round: int = 0
    offers: dict[int, OfferRow] = field(default_factory=dict)
    known: dict[tuple[bool, Participant, ContractName, Nonce], int] = field(default_factory=dict)
    offers_made: dict[tuple[Participant, ContractName], tuple[int, int]] = field(
        default_factory=dict
    )
    open: dict[int, tuple[int, bool]] = field(default_factory=dict)
    """By offer: when it expires, and whether it is stale."""
    answered: set[int] = field(default_factory=set)
    moves: dict[int, MoveRow] = field(default_factory=dict)
    """Those that have not lapsed."""
    answers: dict[ContractName, tuple[Answer, int, bool, int]] = field(default_factory=dict)
    """By contract: the last answer got, to which offer, in which round."""
    requested_loads: dict[ContractName, tuple[Revision, RequestedLoad]] = field(
        default_factory=dict
    )
    silent: dict[Participant, tuple[int, Silence]] = field(default_factory=dict)
    drawn: int = 0


def copied(tables: Tables) -> Tables:
    """The tables as they are now, whatever is written to them later."""
    kept = copy.copy(tables)
    for name in (
        "offers",
        "known",
        "offers_made",
        "open",
        "moves",
        "answers",
        "requested_loads",
        "silent",
    ):
        setattr(kept, name, dict(getattr(tables, name)))
    kept.answered = set(tables.answered)
    return kept


def agreed_move(move: MoveRow) -> AgreedMove:
    """A move as decisions know it."""
    return AgreedMove(
        move_id=move.move_id,
        is_given=move.is_given,
        is_granted=move.state is MoveState.GRANTED,
        partner=move.partner,
        contract=move.contract,
        item=move.item,
        level=move.level,
        round=move.round,
        expires_at_ms=move.expires_at_ms,
    )


def requested_load_of(document: Mapping[str, Any]) -> RequestedLoad:
    """What is remembered of what a payer wants."""
    return RequestedLoad(
        offer=document["nonce"],
        load=document["load"],
        smallest=document["smallest"],
        for_overload=document["for_overload"],
        reported_level=document["reported_level"],
    )


def movement_of(terms: Terms) -> Movement:
    """What a contract of kind movement says; Refused for any other."""
    if not isinstance(terms.subject, Movement):
        raise Refused(f"contract {terms.contract} moves no load")
    return terms.subject


def price_at(terms: Terms, level: int) -> Decimal | None:
    """The price of a level; None if the contract has none such."""
    price = movement_of(terms).price
    return price.at(level) if 0 <= level <= price.top else None


def part_of(item: Item) -> tuple[str, int]:
    """A fragment's partition."""
    return item.fragment, item.partition


def is_made_by(row: OfferRow, partner: Participant) -> bool:
    """Whether an offer is one that this partner made."""
    return not row.is_own and row.partner == partner
