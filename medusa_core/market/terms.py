"""The terms of a contract between two participants: what it covers, its prices, its periods.

A contract is one document of which both parties keep a copy (`documents.py`); the document's hash
is its *revision*. Money is decimal, never binary.

Source: CIDR 2003, 6.5 (movement, content and suggested contracts); NSDI 2004 (bounded prices).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import NewType

from medusa_core.commits import Cause
from medusa_core.errors import Refused
from medusa_core.market.term_rules import (
    AMOUNT,
    AMOUNT_OR_ZERO,
    ANY,
    CURRENCY,
    FRAGMENT,
    FRAGMENTS_MAX,
    LENGTH,
    NAME,
    NOTICE,
    NUMBER,
    ORIGIN_STREAM,
    READS_MAX,
    REFERENCE,
    REPLICAS,
    REVISION,
    SHARE,
    TIME,
    ListRule,
    TermFinding,
    require,
    unless,
    word_of,
)
from medusa_core.names import FragmentName, Participant, StreamName
from medusa_core.suggest import shown

ContractName = NewType("ContractName", str)
OriginStream = NewType("OriginStream", str)
"""A stream as other homes name it: PARTICIPANT/STREAM, after the participant that publishes it."""

Revision = NewType("Revision", str)
"""The SHA-256 of a contract's document, 64 hexadecimal digits."""

LEVELS_MAX = 1_000


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


class BoxKind(Enum):
    """A kind of box that a buyer may define over a stream: expressions alone, no code."""

    FILTER = "filter"
    MAP = "map"
    AGGREGATE = "aggregate"


class BillingUnit(Enum):
    """What a stream is paid for by."""

    RECORD = "record"
    PERIOD = "period"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceRange:
    """Prices from `low` to `high` in equal steps: level 0 is `low`, the last one is `high`.

    Currency per unit of load and hour. Raises InvalidTerms unless 0 < low <= high and the step
    divides what lies between.
    """

    low: Decimal
    high: Decimal
    step: Decimal

    def __post_init__(self) -> None:
        low, high, step = ("price", "low"), ("price", "high"), ("price", "step")
        require(
            AMOUNT.finding(low, self.low),
            AMOUNT.finding(high, self.high),
            AMOUNT.finding(step, self.step),
        )
        between, each = self.high - self.low, plain(self.step)
        require(
            unless(
                between >= 0,
                low,
                f"is {plain(self.low)}, above price.high {plain(self.high)}: exchange them",
            )
        )
        require(
            unless(
                between % self.step == 0,
                step,
                f"is {each}, which does not lead from {plain(self.low)} to {plain(self.high)}: "
                f"write a step that divides {plain(between)}",
            ),
            unless(
                self.top <= LEVELS_MAX,
                step,
                f"is {each}, which makes {self.top:,} steps: write a step that makes "
                f"{LEVELS_MAX:,} at most",
            ),
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


def is_possible(method: Method, recovery: Recovery) -> bool:
    """Whether a method can give a recovery: without copies and inputs, results are lost."""
    return method is not Method.AMNESIA or recovery is Recovery.GAP


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

    def __post_init__(self) -> None:
        recovery, replicas = ("availability", "recovery"), ("availability", "replicas")
        require(
            REPLICAS.finding(replicas, self.replicas),
            None
            if self.bound_ms is None
            else LENGTH.finding(("availability", "bound"), self.bound_ms),
        )
        require(
            unless(
                is_possible(self.method, self.recovery),
                recovery,
                f"is {self.recovery.value}, but a failure loses results with method amnesia: "
                "write recovery: gap, or another method",
            ),
            unless(
                self.method is not Method.ACTIVE_STANDBY or self.replicas > 1,
                replicas,
                f"leaves method active_standby with {self.replicas} replica: write replicas: 2 or "
                "more",
            ),
        )


FRAGMENTS = ListRule(
    "write any, or a list of fragments, such as [main]", FRAGMENT, FRAGMENTS_MAX, everything=ANY
)
READS = ListRule(
    "write a list of streams of third participants, such as [gamma/sums]", ORIGIN_STREAM, READS_MAX
)
REFERENCES = ListRule(
    "write a list such as [main/connections=0.8, main/counted=2.1]", REFERENCE, FRAGMENTS_MAX
)
BOXES = ListRule(
    "write a list of kinds of boxes, such as [filter, map]", word_of(BoxKind), len(BoxKind)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """The payer may hand load to the provider, at a price within the range, up to `load_max`.

    `fragments` names what may move, as FRAGMENT or NETWORK.FRAGMENT (None: any of the payer's).
    `reads` are streams of third participants that the provider reads for them, each under its own
    grant there (None: none).
    `reference` is what load is billed by: CPU microseconds for each record that a fragment reads or
    writes of a stream, as FRAGMENT/STREAM=MICROSECONDS (None: it is not billed). `penalty` is due
    for each violation of the availability. A hold that either places at the other lasts
    `hold_ms_max` at most. `verify` is the share of the provider's buckets that the payer recomputes
    (None: 0.01). `billed` stands in documents of earlier versions; nothing reads it.
    """

    price: PriceRange
    fragments: frozenset[FragmentName] | None
    load_max: Decimal
    availability: Availability
    penalty: Decimal
    hold_ms_max: int
    reference: frozenset[str] | None = None
    billed: frozenset[Cause] | None = None
    load_unit: LoadUnit = LoadUnit.CORE
    reads: frozenset[OriginStream] | None = None
    verify: Decimal | None = None

    def __post_init__(self) -> None:
        require(
            AMOUNT.finding(("load_max",), self.load_max),
            FRAGMENTS.finding(("moves",), self.fragments),
            None if self.reads is None else READS.finding(("reads",), self.reads),
            None if self.reference is None else REFERENCES.finding(("reference",), self.reference),
            None if self.verify is None else SHARE.finding(("verify",), self.verify),
            *_promise_findings(self),
        )
        named = [text.partition("=")[0] for text in self.reference or ()]
        require(
            *(
                unless(
                    named.count(name) == 1,
                    ("reference",),
                    f"has two numbers for {name}: keep one",
                )
                for name in sorted(set(named))
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The provider sends the payer a stream, for a price per record or per settlement period.

    `boxes`: the payer may define boxes of these kinds over the stream, which the provider runs with
    `load_max` at most; None for both: it may not.
    """

    stream: StreamName
    price: Decimal
    per: BillingUnit
    availability: Availability
    penalty: Decimal
    hold_ms_max: int
    boxes: frozenset[BoxKind] | None = None
    load_max: Decimal | None = None

    def __post_init__(self) -> None:
        require(
            NAME.finding(("stream",), self.stream),
            AMOUNT.finding(("price",), self.price),
            *_promise_findings(self),
            None if self.boxes is None else BOXES.finding(("boxes",), self.boxes),
            None if self.load_max is None else AMOUNT.finding(("load_max",), self.load_max),
        )
        require(
            unless(
                (self.boxes is None) == (self.load_max is None),
                ("load_max",),
                "is for boxes, and boxes have one: write both, or neither",
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggested:
    """The provider's advice: buy this stream from another participant instead of from me."""

    stream: StreamName
    instead: Participant

    def __post_init__(self) -> None:
        require(NAME.finding(("stream",), self.stream), NAME.finding(("instead",), self.instead))


Subject = Movement | Content | Suggested


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """All that a contract says. The payer pays the provider; both are its parties.

    It is valid from `valid_from_ms` until before `valid_until_ms` (Unix time), settled every
    `settlement_ms`, and ended by either party `notice_ms` ahead. `number` counts its revisions from
    1 on, `supersedes` is the one before. Raises InvalidTerms where terms break a rule or
    contradict each other.
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
        require(
            NAME.finding(("contract",), self.contract),
            NUMBER.finding(("number",), self.number),
            None if self.supersedes is None else REVISION.finding(("supersedes",), self.supersedes),
            NAME.finding(("payer",), self.payer),
            NAME.finding(("provider",), self.provider),
            CURRENCY.finding(("currency",), self.currency),
            TIME.finding(("valid", "from"), self.valid_from_ms),
            TIME.finding(("valid", "until"), self.valid_until_ms),
            LENGTH.finding(("settlement",), self.settlement_ms),
            NOTICE.finding(("notice",), self.notice_ms),
        )
        instead = self.subject.instead if isinstance(self.subject, Suggested) else None
        reads = self.subject.reads if isinstance(self.subject, Movement) else None
        of_parties = [one for one in sorted(reads or ()) if one.partition("/")[0] in self.parties]
        require(
            unless(
                (self.number == 1) == (self.supersedes is None),
                ("number",),
                f"is {self.number} and supersedes {self.supersedes or 'nothing'}: the first "
                "revision alone supersedes nothing",
            ),
            unless(
                self.payer != self.provider,
                ("provider",),
                f"is {self.provider}, the payer too: name another participant",
            ),
            unless(
                self.valid_from_ms < self.valid_until_ms,
                ("valid", "until"),
                "ends the contract before it begins: write a time after valid.from",
            ),
            unless(
                instead not in self.parties,
                ("instead",),
                f"is {instead}, a party of the contract: name a third participant",
            ),
            unless(
                not of_parties,
                ("reads",),
                f"names {', '.join(of_parties)} of a party of the contract: name streams of third "
                "participants",
            ),
        )

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


def checked_fragment(text: object) -> FragmentName:
    """A fragment as contracts name it: FRAGMENT, or NETWORK.FRAGMENT where two networks of the
    payer have one of that name; Refused if it is neither."""
    if FRAGMENT.holds(text):
        return FragmentName(str(text))
    raise Refused(f"fragment {shown(text)} is not valid: {FRAGMENT.write}")


def origin_stream(participant: Participant, stream: StreamName) -> OriginStream:
    """How other homes name a participant's stream."""
    return OriginStream(f"{participant}/{stream}")


def checked_revision(text: object) -> Revision:
    """A revision's hash; Refused if it cannot be one."""
    if REVISION.holds(text):
        return Revision(str(text))
    raise Refused(f"revision {shown(text)} is not valid: {REVISION.write}")


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


def plain(amount: Decimal) -> str:
    """The one way to write an amount: no exponent, no trailing zeros."""
    text = f"{amount:f}"
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def _promise_findings(subject: Movement | Content) -> tuple[TermFinding | None, ...]:
    return (
        AMOUNT_OR_ZERO.finding(("penalty",), subject.penalty),
        LENGTH.finding(("hold_max",), subject.hold_ms_max),
    )
