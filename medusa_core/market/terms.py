"""The terms of a contract between two participants: what it covers, its prices, its periods.

A contract is one document of which both parties keep a copy (`documents.py`); the document's hash
is its *revision*. Money is decimal, never binary.

Source: CIDR 2003, 6.5 (movement, content and suggested contracts); NSDI 2004 (bounded prices).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import NewType

from medusa_core.commits import Cause
from medusa_core.errors import Refused
from medusa_core.names import FragmentName, Participant, StreamName

ContractName = NewType("ContractName", str)
Revision = NewType("Revision", str)
"""The SHA-256 of a contract's document, 64 hexadecimal digits."""

LEVELS_MAX = 1_000
PLACES_MAX = 6
MONEY_MAX = Decimal(10) ** 12
_FRAGMENT = re.compile(r"[a-z][a-z0-9_]{0,62}(\.[a-z][a-z0-9_]{0,62})?")


class ContractKind(Enum):
    """What is sold: capacity at a bounded price, a stream, or nothing (a hint where to buy one)."""

    MOVEMENT = "movement"
    CONTENT = "content"
    SUGGESTED = "suggested"


class Recovery(Enum):
    """What a failure may do to a result (ICDE 2005)."""

    GAP = "gap"
    ROLLBACK = "rollback"
    PRECISE = "precise"


class Method(Enum):
    """How a result is kept through a failure (ICDE 2005)."""

    AMNESIA = "amnesia"
    PASSIVE_STANDBY = "passive_standby"
    ACTIVE_STANDBY = "active_standby"
    UPSTREAM_BACKUP = "upstream_backup"


class LoadUnit(Enum):
    """What prices and loads count: one core kept busy, a CPU second of the process tree a second.

    A document of format 1 that says none means this one.
    """

    CORE = "core"


class BillingUnit(Enum):
    """What a stream is paid for by."""

    RECORD = "record"
    PERIOD = "period"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRange:
    """Prices from `low` to `high` in equal steps: level 0 is `low`, the last one is `high`.

    Currency per unit of load and hour. Raises Refused unless 0 < low <= high and the step divides
    what lies between.
    """

    low: Decimal
    high: Decimal
    step: Decimal

    def __post_init__(self) -> None:
        for name in ("low", "high", "step"):
            check_money(f"the price's {name}", getattr(self, name))
        if self.low > self.high:
            raise Refused(
                f"the lowest price {plain(self.low)} is above the highest {plain(self.high)}: "
                "exchange them"
            )
        if (self.high - self.low) % self.step:
            raise Refused(
                f"steps of {plain(self.step)} do not lead from {plain(self.low)} to "
                f"{plain(self.high)}: choose a step that divides {plain(self.high - self.low)}"
            )
        if self.top > LEVELS_MAX:
            raise Refused(
                f"a price range of {self.top} steps is too fine: choose a step that makes "
                f"{LEVELS_MAX} at most"
            )

    @property
    def top(self) -> int:
        """The highest level; 0 where the price is fixed."""
        return int((self.high - self.low) / self.step)

    def at(self, level: int) -> Decimal:
        """The price of a level from 0 to `top`."""
        if not 0 <= level <= self.top:
            raise ValueError(f"level {level} of {self.top}")
        return self.low + level * self.step

    def level_of(self, price: Decimal) -> int | None:
        """Which level a price is; None if it is none of this range."""
        if not self.low <= price <= self.high or (price - self.low) % self.step:
            return None
        return int((price - self.low) / self.step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """What the provider promises of what it computes or sends.

    `replicas` counts those that compute it at all times; `bound_ms` is the availability bound X
    (None: none is promised).
    """

    recovery: Recovery
    method: Method
    replicas: int = 1
    bound_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """The payer may hand load to the provider, at a price within the range, up to `load_max`.

    `fragments` names what may move, as FRAGMENT or NETWORK.FRAGMENT (None: any of the payer's).
    `billed` are the causes of steps
    that are paid for. `penalty` is due for each violation of the availability. A hold that either
    places at the other lasts `hold_ms_max` at most.
    """

    price: PriceRange
    fragments: frozenset[FragmentName] | None
    load_max: Decimal
    billed: frozenset[Cause]
    availability: Availability
    penalty: Decimal
    hold_ms_max: int
    load_unit: LoadUnit = LoadUnit.CORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The provider sends the payer a stream, for a price per record or per settlement period."""

    stream: StreamName
    price: Decimal
    per: BillingUnit
    availability: Availability
    penalty: Decimal
    hold_ms_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """The provider's advice: buy this stream from another participant instead of from me."""

    stream: StreamName
    instead: Participant


Subject = Movement | Content | Suggested


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """All that a contract says. The payer pays the provider; both are its parties.

    It is valid from `valid_from_ms` until before `valid_until_ms` (Unix time), settled every
    `settlement_ms`, and ended by either party `notice_ms` ahead. `number` counts its revisions from
    1 on, `supersedes` is the one before. Raises Refused for terms that contradict each other.
    """

    contract: ContractName
    number: int
    supersedes: Revision | None
    payer: Participant
    provider: Participant
    currency: str
    valid_from_ms: int
    valid_until_ms: int
    settlement_ms: int
    notice_ms: int
    subject: Subject

    def __post_init__(self) -> None:
        check_terms(self)

    @property
    def kind(self) -> ContractKind:
        """What is sold."""
        match self.subject:
            case Movement():
                return ContractKind.MOVEMENT
            case Content():
                return ContractKind.CONTENT
            case Suggested():
                return ContractKind.SUGGESTED

    @property
    def parties(self) -> tuple[Participant, Participant]:
        """Payer and provider."""
        return self.payer, self.provider

    def partner_of(self, party: Participant) -> Participant:
        """The other party."""
        if party not in self.parties:
            raise ValueError(f"{party} is no party of {self.contract}")
        return self.provider if party == self.payer else self.payer


def check_terms(terms: Terms) -> None:
    """Refuse terms that contradict each other, whatever their subject."""
    name = terms.contract
    if terms.payer == terms.provider:
        raise Refused(f"contract {name} is one of {terms.payer} with itself: name two parties")
    if terms.number < 1 or (terms.number == 1) != (terms.supersedes is None):
        raise Refused(
            f"revision {terms.number} of contract {name} supersedes "
            f"{terms.supersedes or 'nothing'}: the first alone supersedes nothing"
        )
    if not (len(terms.currency) == 3 and terms.currency.isascii() and terms.currency.isupper()):
        raise Refused(
            f"the currency {terms.currency!r} of contract {name} is not valid: write three "
            "capital letters, "
            "such as EUR"
        )
    if terms.valid_from_ms >= terms.valid_until_ms:
        raise Refused(f"contract {name} ends before it begins: let valid.until follow valid.from")
    for what, length_ms, least_ms in (
        ("settlement period", terms.settlement_ms, 1),
        ("notice", terms.notice_ms, 0),
    ):
        if length_ms < least_ms:
            raise Refused(f"the {what} of contract {name} is {length_ms} ms: write a duration")
    match terms.subject:
        case Movement() as movement:
            check_money("the most load", movement.load_max)
            _check_promise(name, movement.penalty, movement.hold_ms_max, movement.availability)
            if movement.fragments is not None and not movement.fragments:
                raise Refused(f"contract {name} lets nothing move: name fragments, or `any`")
            for fragment in movement.fragments or ():
                checked_fragment(fragment)
            if not movement.billed:
                raise Refused(f"contract {name} bills no cause: name one at least, such as normal")
        case Content() as content:
            check_money("the price", content.price)
            _check_promise(name, content.penalty, content.hold_ms_max, content.availability)
        case Suggested() as suggested:
            if suggested.instead in terms.parties:
                raise Refused(
                    f"contract {name} suggests to buy from {suggested.instead}, a party itself: "
                    "name a third participant"
                )


def checked_fragment(text: object) -> FragmentName:
    """A fragment as contracts name it: FRAGMENT, or NETWORK.FRAGMENT where two networks of the
    payer have one of that name; Refused if it is neither."""
    if isinstance(text, str) and _FRAGMENT.fullmatch(text):
        return FragmentName(text)
    raise Refused(
        f"{str(text)[:150]!r} is not a name of a fragment: write FRAGMENT or NETWORK.FRAGMENT, "
        "each beginning with a lower-case letter, with lower-case letters, digits and _"
    )


def is_named(name: FragmentName, fragments: Collection[FragmentName]) -> bool:
    """Whether a contract that lets `fragments` move lets this one: FRAGMENT stands for
    NETWORK.FRAGMENT too, of which network it is the payer knows."""
    return name in fragments or name.partition(".")[2] in fragments


def may_name_same(
    ones: Iterable[FragmentName] | None, others: Iterable[FragmentName] | None
) -> bool:
    """Whether two contracts may be about one fragment (None: any): NETWORK.FRAGMENT is also what
    FRAGMENT names."""
    if ones is None or others is None:
        return True
    those = set(others)
    parts = {name.partition(".")[2] for name in those}
    return any(
        name in those or name in parts or FragmentName(name.partition(".")[2]) in those
        for name in ones
    )


def check_money(what: str, amount: Decimal, *, zero: bool = False) -> None:
    """Refuse an amount that is no number above 0 (or 0) with six places at most."""
    if not amount.is_finite() or amount > MONEY_MAX or amount < 0 or (amount == 0 and not zero):
        least = "from 0" if zero else "above 0"
        raise Refused(f"{what} is {amount}: write a number {least}, {MONEY_MAX:,f} at most")
    if amount != round(amount, PLACES_MAX):
        raise Refused(f"{what} is {amount}: write {PLACES_MAX} decimal places at most")


def plain(amount: Decimal) -> str:
    """The one way to write an amount: no exponent, no trailing zeros."""
    text = f"{amount:f}"
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def _check_promise(
    name: ContractName, penalty: Decimal, hold_ms_max: int, availability: Availability
) -> None:
    check_money("the penalty", penalty, zero=True)
    if hold_ms_max < 1:
        raise Refused(f"holds under contract {name} last {hold_ms_max} ms: write a duration")
    if availability.replicas < 1:
        raise Refused(f"contract {name} promises {availability.replicas} replicas: write 1 or more")
    if availability.method is Method.AMNESIA and availability.recovery is not Recovery.GAP:
        raise Refused(
            f"contract {name} promises {availability.recovery.value} recovery, but with method "
            "amnesia a failure loses what was in work: promise gap, or another method"
        )
    if availability.method is Method.ACTIVE_STANDBY and availability.replicas < 2:
        raise Refused(
            f"contract {name} leaves method active_standby with {availability.replicas} replica: "
            "write 2 or more"
        )
    if availability.bound_ms is not None and availability.bound_ms < 1:
        raise Refused(f"contract {name} promises a bound of {availability.bound_ms} ms")
