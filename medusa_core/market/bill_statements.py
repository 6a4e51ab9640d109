"""Statements: what is owed under a contract for a settlement period, as one canonical document.

Each party makes the statement alone, from rows that both hold. The same rows and terms give the
same bytes, and the SHA-256 of the bytes identifies the statement. A statement consists of charges:
a quantity of something over a range of event time, at a price. What is billed by records has a
charge for each range that has records; load that moves (`load_statements.py`) has one for each
range too. Rows of gaps are not records, and are not billed; where the provider has promised that
nothing is lost, each range with a gap costs the penalty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from typing import Any, NewType

from medusa_core.digest import Digest
from medusa_core.errors import WRONG_FORM, Refused
from medusa_core.grid import Range
from medusa_core.market.documents import revision_of
from medusa_core.market.money import amount_of, load_amount, share_of, total_of
from medusa_core.market.settlement_periods import SettlementPeriod
from medusa_core.market.terms import (
    BillingUnit,
    Content,
    ContractName,
    Recovery,
    Revision,
    checked_revision,
    plain,
)
from medusa_core.names import Participant, check_name

FORMAT = "medusa.bill/1"
STATEMENT_BYTES_MAX = 64 * 1024
CORRECTIONS_MAX = 48
"""The most corrections in one statement; others follow in the next one."""

StatementId = NewType("StatementId", str)
"""The SHA-256 of a statement's document, 64 hexadecimal digits."""

DIGEST_LENGTH = 32
_FIELDS = (
    "format", "contract", "revision", "period", "from_ms", "to_ms", "payer", "provider",
    "currency", "charges", "total",
)  # fmt: skip


class ChargeKind(Enum):
    """What is charged: final records, a period, load (seconds of CPU, at a price an hour), a change
    of what was settled, a penalty (a negative amount). A sample costs nothing: it is why the payer
    does not pay for the load of its range."""

    RECORDS = "records"
    PERIOD = "period"
    LOAD = "load"
    CORRECTION = "correction"
    PENALTY = "penalty"
    SAMPLE = "sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledRange:
    """The final records of a stream in a range of event time, and how much of it is lost.

    `subject` is empty for the stream that a contract sells, and MOVE/STREAM for a stream that a
    moved fragment reads or writes.
    """

    range: Range
    digest: Digest
    subject: str = ""
    gap_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeChange:
    """A range of an earlier period whose records differ from those that were stated."""

    period: int
    range: Range
    stated: Digest
    digest: Digest
    price: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """A quantity over a range of event time, its price and the amount; below zero it is a credit.

    `period` is the one that it is about: an earlier one of a correction. `digest` identifies the
    rows; it is empty where there are none.
    """

    period: int
    from_us: int
    to_us: int
    kind: ChargeKind
    subject: str
    quantity: Decimal
    price: Decimal
    amount: Decimal
    digest: str = ""

    @property
    def key(self) -> tuple[int, int, int, str, str]:
        """By which the charges of two statements are compared."""
        return self.period, self.from_us, self.to_us, self.kind.value, self.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What the payer owes the provider for a period, from `from_ms` until before `to_ms`.

    Charges are in order of their keys, one of each key.
    """

    contract: ContractName
    revision: Revision
    period: int
    from_ms: int
    to_ms: int
    payer: Participant
    provider: Participant
    currency: str
    charges: tuple[Charge, ...]

    @property
    def total(self) -> Decimal:
        """The sum of all charges."""
        return total_of(charge.amount for charge in self.charges)


def content_statement(
    period: SettlementPeriod,
    ranges: Iterable[BilledRange],
    changes: Iterable[RangeChange] = (),
) -> Statement:
    """The statement of a contract that sells a stream.

    A period that the end of the contract cuts short costs its part of the price.
    """
    content = period.terms.subject
    if not isinstance(content, Content):
        raise ValueError(f"contract {period.terms.contract} sells no stream")
    charges: list[Charge] = []
    if content.per is BillingUnit.PERIOD:
        charges.append(_period_charge(period, content))
    for one in ranges:
        if one.digest.rows:
            price = content.price if content.per is BillingUnit.RECORD else Decimal(0)
            charges.append(charge_of(
                ChargeKind.RECORDS, content.stream, period.number, _within(one.range, period),
                Decimal(one.digest.rows), price, digest_text(one.digest),
            ))  # fmt: skip
        if one.gap_us and content.availability.recovery is not Recovery.GAP:
            part = _within(one.range, period)
            charges += penalty_charge(period.number, content.stream, part, content.penalty)
    if content.per is BillingUnit.RECORD:
        charges += [_correction(content, change) for change in changes]
    return statement_of(period, charges)


def statement_of(period: SettlementPeriod, charges: Iterable[Charge]) -> Statement:
    """The statement of a period with these charges."""
    terms = period.terms
    return Statement(
        contract=terms.contract,
        revision=revision_of(terms),
        period=period.number,
        from_ms=period.from_ms,
        to_ms=period.to_ms,
        payer=terms.payer,
        provider=terms.provider,
        currency=terms.currency,
        charges=tuple(sorted(charges, key=lambda charge: charge.key)),
    )


def penalty_charge(period: int, subject: str, of: Range, penalty: Decimal) -> tuple[Charge, ...]:
    """The charge for a promise that the provider broke; empty if the penalty is 0."""
    if not penalty:
        return ()
    return (charge_of(ChargeKind.PENALTY, subject, period, of, Decimal(-1), penalty, ""),)


def repriced(own: Statement, period: SettlementPeriod) -> Statement:
    """The statement of the same rows under the terms of `period`, another revision's."""
    content = period.terms.subject
    if not isinstance(content, Content):
        raise ValueError(f"contract {own.contract} sells no stream")
    per_record = content.price if content.per is BillingUnit.RECORD else Decimal(0)
    charges = [
        charge_of(
            charge.kind, charge.subject, charge.period, Range(charge.from_us, charge.to_us),
            charge.quantity, per_record, charge.digest,
        )
        if charge.kind is ChargeKind.RECORDS
        else charge
        for charge in own.charges
        if charge.kind is not ChargeKind.PERIOD
    ]  # fmt: skip
    if content.per is BillingUnit.PERIOD:
        charges.append(_period_charge(period, content))
    return Statement(
        contract=own.contract,
        revision=revision_of(period.terms),
        period=own.period,
        from_ms=own.from_ms,
        to_ms=own.to_ms,
        payer=own.payer,
        provider=own.provider,
        currency=period.terms.currency,
        charges=tuple(sorted(charges, key=lambda charge: charge.key)),
    )


def digest_text(digest: Digest) -> str:
    """A digest in 32 hexadecimal digits; nothing of no rows."""
    if not digest.rows:
        return ""
    text = f"{digest.rows} {digest.sum_a} {digest.sum_b}"
    return sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def statement_document(statement: Statement) -> bytes:
    """The canonical bytes of a statement."""
    fields = {
        "format": FORMAT,
        "contract": statement.contract,
        "revision": statement.revision,
        "period": statement.period,
        "from_ms": statement.from_ms,
        "to_ms": statement.to_ms,
        "payer": statement.payer,
        "provider": statement.provider,
        "currency": statement.currency,
        "charges": [_charge_fields(charge) for charge in statement.charges],
        "total": plain(statement.total),
    }
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def statement_id(statement: Statement) -> StatementId:
    """The hash of the document."""
    return StatementId(sha256(statement_document(statement)).hexdigest())


def statement_from(document: bytes) -> Statement:
    """The statement in a document; Refused unless it is canonical and its sums are right."""
    if len(document) > STATEMENT_BYTES_MAX:
        raise Refused(f"a statement of {len(document):,} bytes: none is longer than 64 KiB")
    try:
        given = json.loads(document)
        statement = _statement(given)
    except (*WRONG_FORM, RecursionError):
        raise Refused("this is no statement: send one as Medusa writes it") from None
    if statement_document(statement) != document:
        raise Refused(
            f"the statement of contract {statement.contract}, period {statement.period}, is not "
            "written as Medusa writes it, or its sums are wrong"
        )
    return statement


def _statement(given: Mapping[str, Any]) -> Statement:
    if set(given) != set(_FIELDS) or given["format"] != FORMAT:
        raise ValueError("not these fields")
    charges = tuple(_charge_from(one) for one in given["charges"])
    keys = [charge.key for charge in charges]
    if keys != sorted(set(keys)):
        raise ValueError("charges are not in order, or one is there twice")
    return Statement(
        contract=ContractName(check_name("contract", given["contract"])),
        revision=checked_revision(given["revision"]),
        period=_whole(given["period"]),
        from_ms=_whole(given["from_ms"]),
        to_ms=_whole(given["to_ms"]),
        payer=Participant(check_name("participant", given["payer"])),
        provider=Participant(check_name("participant", given["provider"])),
        currency=str(given["currency"]),
        charges=charges,
    )


def _charge_from(given: Sequence[Any]) -> Charge:
    kind, subject, period, from_us, to_us, quantity, price, _, digest = given
    return charge_of(
        ChargeKind(kind), _subject(subject), _whole(period),
        Range(_whole(from_us), _whole(to_us)), _decimal(quantity), _decimal(price), str(digest),
    )  # fmt: skip


def _within(of: Range, period: SettlementPeriod) -> Range:
    """A range that was counted before the end of the contract was known ends there."""
    return of.intersection(period.range) or of


def _charge_fields(charge: Charge) -> list[str | int]:
    return [
        charge.kind.value, charge.subject, charge.period, charge.from_us, charge.to_us,
        plain(charge.quantity), plain(charge.price), plain(charge.amount), charge.digest,
    ]  # fmt: skip


def charge_of(
    kind: ChargeKind, subject: str, period: int, of: Range, quantity: Decimal, price: Decimal,
    digest: str,
) -> Charge:  # fmt: skip
    """A charge with its amount."""
    amount = (load_amount if kind is ChargeKind.LOAD else amount_of)(quantity, price)
    return Charge(
        period=period, from_us=of.from_us, to_us=of.to_us, kind=kind, subject=subject,
        quantity=quantity, price=price, amount=amount, digest=digest,
    )  # fmt: skip


def _period_charge(period: SettlementPeriod, content: Content) -> Charge:
    quantity = share_of(period.to_ms - period.from_ms, period.terms.settlement_ms)
    return charge_of(
        ChargeKind.PERIOD, content.stream, period.number, period.range, quantity, content.price, ""
    )


def _correction(content: Content, change: RangeChange) -> Charge:
    quantity = Decimal(change.digest.rows - change.stated.rows)
    return charge_of(
        ChargeKind.CORRECTION, content.stream, change.period, change.range, quantity,
        change.price, digest_text(change.digest),
    )  # fmt: skip


def _subject(given: object) -> str:
    """A stream, or a move and its fragment or a stream that it writes."""
    text = str(given)
    number, *names = text.split("/") if "/" in text else ("1", text)
    if not re.fullmatch("[1-9][0-9]{0,9}", number) or len(names) not in (1, 2):
        raise ValueError("no subject")
    for name in names:
        check_name("stream", name)
    return text


def _whole(given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and abs(given) < 2**63:
        return given
    raise ValueError("no whole number")


def _decimal(given: object) -> Decimal:
    if not isinstance(given, str) or len(given) > 40:
        raise ValueError("no amount")
    number = Decimal(given)
    if not number.is_finite() or plain(number) != given or (not number and given != "0"):
        raise ValueError("not the one way to write it")
    return number
