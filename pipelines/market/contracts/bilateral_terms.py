"""A bilateral contract's file becomes Terms: revision 1 of the agreement of the two parties.

The shape has been checked (`bilateral_schema.py`); here values are read, exactly: an amount is
the decimal that was written, never a binary float. An error of the terms themselves gets the
place of the field that is to be changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeVar

from medusa_core.commits import Cause
from medusa_core.errors import Refused
from medusa_core.market.terms import (
    Availability,
    BillingUnit,
    Content,
    ContractKind,
    ContractName,
    LoadUnit,
    Method,
    Movement,
    PriceRange,
    Recovery,
    Subject,
    Suggested,
    Terms,
    check_money,
)
from medusa_core.names import FragmentName, Participant, StreamName
from pipelines.contracts.fields import items_of, kind_of, text_of
from pipelines.contracts.stream_bounds import milliseconds_of
from pipelines.contracts.yaml_values import Value
from pipelines.market.contracts.bilateral_findings import Finding, finding_of

NO_CURRENCY = "XXX"
"""ISO 4217's code where no currency is involved: nothing is owed by a suggestion."""

SUGGESTION_SETTLED_MS = 86_400_000
HOLD_MS_MAX = 7 * 86_400_000
NONE = "none"

_AMOUNT = re.compile(r"(?:0|[1-9][0-9]{0,12})(?:\.[0-9]{1,6})?")
_TIME = re.compile(r"[0-9-]{10}T[0-9:]{5,8}(?:\.[0-9]{1,3})?Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_T = TypeVar("_T")


class NotRead(Exception):
    """The file has been read as far as it can be, and `findings` say why there are no terms."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("contract not read")
        self.findings = findings


def terms_of_file(document: Value) -> Terms:
    """The terms of a contract file of the right shape; raises NotRead with all that is wrong."""
    match document.content:
        case dict() as fields:
            return _Reader(document, fields).terms()
        case _:
            raise AssertionError("the shape has been checked")


def amount_of(value: Value, what: str, *, zero: bool = False) -> Decimal:
    """The decimal that is written, number or quoted text, digit for digit.

    Refused unless it is above 0 (or 0), not above 10^12, with six places at most.
    """
    text = value.content if isinstance(value.content, str) else value.written
    if text is None or not _AMOUNT.fullmatch(text):
        raise value.refused(f"is {kind_of(value)}: write an amount, such as 1.30")
    amount = Decimal(text)
    try:
        check_money(what, amount, zero=zero)
    except Refused as error:
        raise value.refused(f"is {text}: {error}") from None
    return amount


def time_ms_of(value: Value) -> int:
    """Unix milliseconds of an ISO 8601 time in UTC, written with Z."""
    text = text_of(value)
    try:
        if not _TIME.fullmatch(text):
            raise ValueError
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise value.refused(
            f"is {text!r}, which is no time: write one in UTC, such as 2026-01-01T00:00:00Z"
        ) from None
    return (moment - _EPOCH) // timedelta(milliseconds=1)


class _Reader:
    """Reads one file, and goes on after a field that is wrong, to find the others."""

    def __init__(self, document: Value, fields: Mapping[str, Value]) -> None:
        self._document = document
        self._fields = fields
        self._findings: list[Finding] = []

    def terms(self) -> Terms:
        kind = ContractKind(self._text("kind"))
        valid = self._inside("valid")
        from_ms = self._read(valid["from"], time_ms_of, 0)
        until_ms = self._read(valid["until"], time_ms_of, 0)
        is_paid = kind is not ContractKind.SUGGESTED
        settled_ms = self._duration("settlement", 1) if is_paid else SUGGESTION_SETTLED_MS
        notice_ms = self._notice()
        subject = self._subject(kind)
        if self._findings or subject is None:
            raise NotRead(self._findings)
        try:
            return Terms(
                contract=ContractName(self._text("contract")),
                number=1,
                supersedes=None,
                payer=Participant(self._text("payer")),
                provider=Participant(self._text("provider")),
                currency=self._text("currency") if is_paid else NO_CURRENCY,
                valid_from_ms=from_ms,
                valid_until_ms=until_ms,
                settlement_ms=settled_ms,
                notice_ms=notice_ms,
                subject=subject,
            )
        except Refused as error:
            at = self._document
            if self._text("payer") == self._text("provider"):
                at = self._fields["provider"]
            elif from_ms >= until_ms:
                at = valid["until"]
            elif "instead" in self._fields:
                at = self._fields["instead"]
            raise NotRead([finding_of(at, at.refused(f"cannot be agreed on: {error}"))]) from None

    def _subject(self, kind: ContractKind) -> Subject | None:
        match kind:
            case ContractKind.MOVEMENT:
                price = self._price_range()
                load_max = self._amount("load_max", "the most load")
                availability = self._availability()
                penalty, hold_ms_max = self._penalty(), self._hold()
                if price is None:
                    return None
                return Movement(
                    price=price,
                    fragments=self._moves(),
                    load_unit=LoadUnit(self._text("load_unit"))
                    if "load_unit" in self._fields
                    else LoadUnit.CORE,
                    load_max=load_max,
                    billed=frozenset(Cause(text_of(i)) for i in items_of(self._fields["billed"])),
                    availability=availability,
                    penalty=penalty,
                    hold_ms_max=hold_ms_max,
                )
            case ContractKind.CONTENT:
                return Content(
                    stream=StreamName(self._text("stream")),
                    price=self._amount("price", "the price"),
                    per=BillingUnit(self._text("per")),
                    availability=self._availability(),
                    penalty=self._penalty(),
                    hold_ms_max=self._hold(),
                )
            case ContractKind.SUGGESTED:
                return Suggested(
                    stream=StreamName(self._text("stream")),
                    instead=Participant(self._text("instead")),
                )

    def _price_range(self) -> PriceRange | None:
        before = len(self._findings)
        price = self._inside("price")
        one = Decimal(1)
        low = self._read(price["low"], lambda v: amount_of(v, "the lowest price"), one)
        high = self._read(price["high"], lambda v: amount_of(v, "the highest price"), one)
        step = one
        if "step" in price:
            step = self._read(price["step"], lambda v: amount_of(v, "the step"), one)
        elif low != high:
            at = self._fields["price"]
            self._findings.append(
                finding_of(at, at.refused("lacks the field step: say in which steps prices rise"))
            )
        if len(self._findings) > before:
            return None
        at = price["low"] if low > high else price.get("step", self._fields["price"])
        try:
            return PriceRange(low=low, high=high, step=step)
        except Refused as error:
            refused = at.refused(f"makes no range of prices: {error}")
            self._findings.append(finding_of(at, refused))
            return None

    def _availability(self) -> Availability:
        given = self._inside("availability")
        recovery = Recovery(text_of(given["recovery"]))
        method = Method(text_of(given["method"]))
        replicas = given["replicas"].content if "replicas" in given else 1
        assert isinstance(replicas, int), "the shape has been checked"
        if method is Method.AMNESIA and recovery is not Recovery.GAP:
            self._contradicts(
                given["recovery"],
                f"is {recovery.value}, but with method amnesia a failure loses what was in work: "
                "write recovery: gap, or another method",
            )
        if method is Method.ACTIVE_STANDBY and replicas < 2:
            self._contradicts(
                given.get("replicas", given["method"]),
                f"leaves method active_standby with {replicas} replica: write replicas: 2 or more",
            )
        bound_ms = self._read(given["bound"], milliseconds_of, 1) if "bound" in given else None
        return Availability(recovery=recovery, method=method, replicas=replicas, bound_ms=bound_ms)

    def _contradicts(self, at: Value, says: str) -> None:
        self._findings.append(finding_of(at, at.refused(says)))

    def _moves(self) -> frozenset[FragmentName] | None:
        match self._fields["moves"].content:
            case tuple() as items:
                return frozenset(FragmentName(text_of(item)) for item in items)
            case _:
                return None

    def _notice(self) -> int:
        if "notice" not in self._fields or self._fields["notice"].content == NONE:
            return 0
        return self._duration("notice", 0)

    def _penalty(self) -> Decimal:
        if "penalty" not in self._fields:
            return Decimal(0)
        return self._amount("penalty", "the penalty", zero=True)

    def _hold(self) -> int:
        return self._duration("hold_max", 1) if "hold_max" in self._fields else HOLD_MS_MAX

    def _text(self, name: str) -> str:
        return text_of(self._fields[name])

    def _inside(self, name: str) -> Mapping[str, Value]:
        match self._fields[name].content:
            case dict() as fields:
                return fields
            case _:
                raise AssertionError("the shape has been checked")

    def _amount(self, name: str, what: str, *, zero: bool = False) -> Decimal:
        return self._read(
            self._fields[name], lambda value: amount_of(value, what, zero=zero), Decimal(1)
        )

    def _duration(self, name: str, otherwise: int) -> int:
        return self._read(self._fields[name], milliseconds_of, otherwise)

    def _read(self, value: Value, read: Callable[[Value], _T], otherwise: _T) -> _T:
        try:
            return read(value)
        except Refused as error:
            self._findings.append(finding_of(value, error))
            return otherwise
