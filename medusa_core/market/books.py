"""Double-entry books: what a statement, a correction, a penalty and a payment write into them.

An entry has two or more postings in one currency whose sum is zero (law S9); an amount above zero
is a debit, below zero a credit. The account `partner` shows what the partner owes this home (above
zero) or this home owes the partner. Each entry has a key that its cause determines, so that the
same cause, however often it is carried out, makes one entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from medusa_core.market.bill_comparison import Amounts, AnswerOutcome
from medusa_core.market.bill_statements import ChargeKind, Statement, StatementId, statement_id
from medusa_core.market.money import ZERO, total_of
from medusa_core.market.terms import ContractName, Revision
from medusa_core.names import Participant


class Account(Enum):
    """An account of the books of a home, kept for each partner and currency."""

    PARTNER = "partner"
    REVENUE = "revenue"
    COST = "cost"
    PENALTY = "penalty"
    SETTLEMENT = "settlement"


class EntryKind(Enum):
    """What an entry was caused by."""

    STATEMENT = "statement"
    CORRECTION = "correction"
    PENALTY = "penalty"
    PAYMENT = "payment"


_KIND_OF_CHARGE: Mapping[ChargeKind, EntryKind] = {
    ChargeKind.RECORDS: EntryKind.STATEMENT,
    ChargeKind.PERIOD: EntryKind.STATEMENT,
    ChargeKind.LOAD: EntryKind.STATEMENT,
    ChargeKind.CORRECTION: EntryKind.CORRECTION,
    ChargeKind.PENALTY: EntryKind.PENALTY,
    ChargeKind.SAMPLE: EntryKind.CORRECTION,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """An amount on an account: a debit above zero, a credit below."""

    account: Account
    amount: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry in the books of a home; a payment names no contract, revision, period, statement.

    Raises ValueError unless the postings sum to zero.
    """

    key: str
    kind: EntryKind
    partner: Participant
    currency: str
    postings: tuple[Posting, ...]
    contract: ContractName | None = None
    revision: Revision | None = None
    period: int | None = None
    statement: StatementId | None = None

    def __post_init__(self) -> None:
        if len(self.postings) < 2 or total_of(one.amount for one in self.postings):
            raise ValueError(f"the postings of entry {self.key} do not sum to zero")


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What a partner owes in a currency over all contracts; below zero it is owed by this home."""

    partner: Participant
    currency: str
    amount: Decimal


def statement_entries(
    here: Participant,
    statement: Statement,
    outcome: AnswerOutcome,
    owed: Amounts,
    booked: Amounts | None = None,
) -> tuple[Entry, ...]:
    """The entries of an answer to a statement, in the home of either party.

    `owed` is what the payer signs that it owes in all, by kind of charge; `booked` is what an
    earlier answer has booked of it.
    """
    changes: dict[EntryKind, list[Decimal]] = {}
    for kind, amount in owed.items():
        changes.setdefault(_KIND_OF_CHARGE[kind], []).append(amount)
    for kind, amount in (booked or {}).items():
        changes.setdefault(_KIND_OF_CHARGE[kind], []).append(-amount)
    return tuple(
        _entry(here, statement, outcome, entry_kind, amount)
        for entry_kind in EntryKind
        if (amount := total_of(changes.get(entry_kind, ())))
    )


def payment_entry(
    key: str, partner: Participant, currency: str, amount: Decimal, *, is_received: bool
) -> Entry:
    """The entry of a payment that was made to the partner, or received from it."""
    signed = -amount if is_received else amount
    return Entry(
        key=key,
        kind=EntryKind.PAYMENT,
        partner=partner,
        currency=currency,
        postings=_postings(Account.PARTNER, Account.SETTLEMENT, signed),
    )


def net_balances(entries: Iterable[Entry]) -> tuple[Balance, ...]:
    """What is owed between this home and each partner, over all contracts of a currency."""
    found: dict[tuple[Participant, str], Decimal] = {}
    for entry in entries:
        key = (entry.partner, entry.currency)
        own = (one.amount for one in entry.postings if one.account is Account.PARTNER)
        found[key] = total_of((found.get(key, ZERO), *own))
    return tuple(
        Balance(partner=partner, currency=currency, amount=amount)
        for (partner, currency), amount in sorted(found.items())
    )


def _entry(
    here: Participant, statement: Statement, outcome: AnswerOutcome, kind: EntryKind,
    amount: Decimal,
) -> Entry:  # fmt: skip
    is_payer = here == statement.payer
    if kind is EntryKind.PENALTY:
        other = Account.PENALTY
    else:
        other = Account.COST if is_payer else Account.REVENUE
    step = 2 if outcome.ends_dispute else 1
    return Entry(
        key=f"{statement.contract}/{statement.period}/{step}/{kind.value}",
        kind=kind,
        partner=statement.provider if is_payer else statement.payer,
        currency=statement.currency,
        postings=_postings(Account.PARTNER, other, -amount if is_payer else amount),
        contract=statement.contract,
        revision=statement.revision,
        period=statement.period,
        statement=statement_id(statement),
    )


def _postings(one: Account, other: Account, amount: Decimal) -> tuple[Posting, ...]:
    return Posting(account=one, amount=amount), Posting(account=other, amount=-amount)
