"""What people read of the books of a home: balances, postings, statements, disputes."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from medusa_core.market.terms import ContractName
from medusa_core.names import Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountBalance:
    """The balance of an account; that of `partner` is owed by the partner, below zero by us."""

    partner: Participant
    currency: str
    account: str
    balance: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """A posting with what caused it: a statement of a period, or a payment by its reference."""

    entry: int
    made_ms: int
    kind: str
    partner: Participant
    currency: str
    account: str
    amount: Decimal
    contract: ContractName | None
    period: int | None
    statement: str | None
    reference: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BillStatus:
    """A statement and what became of it; `owed` is None as long as it is not answered."""

    contract: ContractName
    period: int
    made_by: Participant
    state: str
    payer: Participant
    provider: Participant
    currency: str
    total: Decimal
    owed: Decimal | None
    blocked: Decimal
    from_ms: int
    to_ms: int
    statement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputeStatus:
    """A dispute about a statement: open, or by whose figures it ended."""

    contract: ContractName
    period: int
    state: str
    payer: Participant
    provider: Participant
    currency: str
    claimed: Decimal
    agreed: Decimal
    blocked: Decimal
    from_us: int
    to_us: int
    owed: Decimal | None
