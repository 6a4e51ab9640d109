"""Messages between partners in a round: offers of load, and answers to them.

A message holds nothing of its sender's cost function, total load or threshold. It is encoded like
a contract's document: the same message gives the same bytes, which are what is signed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from math import isfinite
from typing import Any, NewType, TypeVar

from medusa_core.errors import WRONG_FORM, Refused
from medusa_core.market.envelopes import BODY_BYTES_MAX
from medusa_core.market.terms import (
    LEVELS_MAX,
    ContractName,
    Revision,
    checked_fragment,
    checked_revision,
)
from medusa_core.names import FragmentName, check_name

Nonce = NewType("Nonce", str)
"""32 hexadecimal digits, drawn by the payer; no two offers under a contract share one."""

OFFER_FORMAT = "medusa.offer/1"
ANSWER_FORMAT = "medusa.answer/1"
ITEMS_MAX = 440
"""So many items fit into an envelope, however long their names are."""

ROOMS_MAX = 8
LOAD_MAX = 1e9
LOAD_MIN = 1e-6
"""A microsecond of CPU a second: nothing smaller is measured, and too many would fit anywhere."""

COUNT_MAX = 2**53


class Reason(Enum):
    """Why an answer is as it is."""

    TAKEN = "taken"
    FULL = "full"
    LOAD_MAX = "load_max"
    REVISION = "revision"
    TERMS = "terms"
    STALE = "stale"
    UNWEIGHED = "unweighed"

    @property
    def reports_headroom(self) -> bool:
        """Whether the answer's rooms say anything; else none says nothing of the room there is."""
        return self in (Reason.TAKEN, Reason.FULL, Reason.LOAD_MAX, Reason.TERMS)


@dataclass(frozen=True, slots=True)
class Item:
    """A partition of a fragment, and its load in the contracts' unit, as its carrier states it."""

    fragment: FragmentName
    partition: int
    load: float


@dataclass(frozen=True, slots=True)
class LoadHeadroom:
    """How much more load a provider would take now in all, at a level of the contract's prices."""

    level: int
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The payer would hand `items` over at the price of `level`, under this very revision.

    `for_overload`: on behalf of an overload, its own or that of a partner it would relay for.
    """

    contract: ContractName
    revision: Revision
    nonce: Nonce
    round: int
    level: int
    items: tuple[Item, ...]
    for_overload: bool

    @property
    def load(self) -> float:
        """Of all items."""
        return sum(item.load for item in self.items)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The provider takes `accepted`, declines the rest of the offer that `nonce` names.

    `rooms` are what it would take beyond that, by rising level, where a higher level brings more
    (none: nothing at any price of the contract). Without anything accepted it may be sent once more
    later: the provider has room again.
    """

    contract: ContractName
    nonce: Nonce
    round: int
    accepted: tuple[Item, ...]
    rooms: tuple[LoadHeadroom, ...]
    reason: Reason


Message = TypeVar("Message", Offer, Answer)


def offer_bytes(offer: Offer) -> bytes:
    """The canonical bytes of an offer."""
    return _bytes(_offer_fields(offer))


def offer_from(message: bytes) -> Offer:
    """The offer in a message; Refused unless it is canonical."""
    given = _fields(message, OFFER_FORMAT)
    try:
        offer = Offer(
            contract=_contract(given["contract"]),
            revision=checked_revision(given["revision"]),
            nonce=checked_nonce(given["nonce"]),
            round=_whole(given["round"], COUNT_MAX),
            level=_whole(given["level"], LEVELS_MAX),
            items=_items(given["items"]),
            for_overload=_truth(given["for_overload"]),
        )
    except WRONG_FORM as error:
        raise _no_message(error) from None
    if not offer.items:
        raise Refused("an offer of nothing: offer one fragment at least")
    return _canonical(offer, _offer_fields(offer), message)


def answer_bytes(answer: Answer) -> bytes:
    """The canonical bytes of an answer."""
    return _bytes(_answer_fields(answer))


def answer_from(message: bytes) -> Answer:
    """The answer in a message; Refused unless it is canonical."""
    given = _fields(message, ANSWER_FORMAT)
    try:
        answer = Answer(
            contract=_contract(given["contract"]),
            nonce=checked_nonce(given["nonce"]),
            round=_whole(given["round"], COUNT_MAX),
            accepted=_items(given["accepted"]),
            rooms=_rooms(given["rooms"]),
            reason=Reason(given["reason"]),
        )
    except WRONG_FORM as error:
        raise _no_message(error) from None
    return _canonical(answer, _answer_fields(answer), message)


def checked_nonce(text: object) -> Nonce:
    """A nonce; Refused if it cannot be one."""
    if isinstance(text, str) and len(text) == 32 and set(text) <= set("0123456789abcdef"):
        return Nonce(text)
    raise Refused(f"{str(text)[:80]!r} is no nonce: it has 32 hexadecimal digits")


def _offer_fields(offer: Offer) -> dict[str, Any]:
    return {
        "format": OFFER_FORMAT,
        "contract": offer.contract,
        "revision": offer.revision,
        "nonce": offer.nonce,
        "round": offer.round,
        "level": offer.level,
        "items": _item_fields(offer.items),
        "for_overload": offer.for_overload,
    }


def _answer_fields(answer: Answer) -> dict[str, Any]:
    return {
        "format": ANSWER_FORMAT,
        "contract": answer.contract,
        "nonce": answer.nonce,
        "round": answer.round,
        "accepted": _item_fields(answer.accepted),
        "rooms": [{"level": room.level, "load": room.load} for room in answer.rooms],
        "reason": answer.reason.value,
    }


def _item_fields(items: tuple[Item, ...]) -> list[dict[str, Any]]:
    return [
        {"fragment": item.fragment, "partition": item.partition, "load": item.load}
        for item in items
    ]


def _bytes(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _fields(message: bytes, written_as: str) -> Mapping[str, Any]:
    if len(message) > BODY_BYTES_MAX:
        raise Refused(f"a message of {len(message):,} bytes: none is longer than 96 KiB")
    try:
        given = json.loads(message)
    except (ValueError, RecursionError):
        raise Refused("this is no message of a round: send one as Medusa writes it") from None
    if not isinstance(given, dict) or given.get("format") != written_as:
        raise Refused(f"this is no message of format {written_as}: send one as Medusa writes it")
    return given


def _canonical(message: Message, fields: Mapping[str, Any], given: bytes) -> Message:
    if _bytes(fields) != given:
        raise Refused(
            f"a message under contract {message.contract} is not written as Medusa writes it: "
            "its signature would not be one of what it says"
        )
    return message


def _items(given: object) -> tuple[Item, ...]:
    if not isinstance(given, list) or len(given) > ITEMS_MAX:
        raise ValueError(f"{str(given)[:40]!r}, which is no list of {ITEMS_MAX} items at most")
    items = tuple(
        Item(
            checked_fragment(item["fragment"]),
            _whole(item["partition"], COUNT_MAX),
            _load(item["load"], LOAD_MIN),
        )
        for item in given
    )
    if len({(item.fragment, item.partition) for item in items}) != len(items):
        raise Refused("a message names a fragment's partition twice: name each once")
    return items


def _rooms(given: object) -> tuple[LoadHeadroom, ...]:
    if not isinstance(given, list) or len(given) > ROOMS_MAX:
        raise ValueError(f"{str(given)[:40]!r}, which is no list of {ROOMS_MAX} rooms at most")
    rooms = tuple(
        LoadHeadroom(_whole(room["level"], LEVELS_MAX), _load(room["load"])) for room in given
    )
    if any(b.level <= a.level or b.load <= a.load for a, b in pairwise(rooms)):
        raise Refused("an answer's rooms do not grow with the level: tell each that brings more")
    return rooms


def _contract(given: object) -> ContractName:
    if not isinstance(given, str):
        raise ValueError(f"{str(given)[:40]!r}, which is no name")
    return ContractName(check_name("contract", given))


def _whole(given: object, most: int) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given <= most:
        return given
    raise ValueError(f"{str(given)[:40]!r}, which is no whole number from 0 to {most}")


def _load(given: object, least: float = 0.0) -> float:
    if isinstance(given, float) and isfinite(given) and 0 < given <= LOAD_MAX and given >= least:
        return given
    raise ValueError(f"{str(given)[:40]!r}, which is no load above {least:f}")


def _truth(given: object) -> bool:
    if isinstance(given, bool):
        return given
    raise ValueError(f"{str(given)[:40]!r}, which is neither true nor false")


def _no_message(error: Exception) -> Refused:
    return Refused(f"this is no message of a round: {error!r} where its terms belong")
