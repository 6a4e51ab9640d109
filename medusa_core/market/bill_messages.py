"""The content of envelopes about statements: a statement, the payer's answer, a concession.

The provider signs that it bills a statement, the payer signs what it owes of it. Both sign
sentences that name the hash of the statement, so that a signature proves what it is about.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from medusa_core.market.bill_comparison import AnswerOutcome
from medusa_core.market.bill_statements import Statement, StatementId, statement_from
from medusa_core.market.terms import ContractName, checked_revision, plain
from medusa_core.names import check_name

SIGNATURE_LENGTH = 128
PERIOD_MAX = 2**53


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementEnvelope:
    """A provider's message: its statement, and its signature (unverified)."""

    statement: Statement
    document: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementAnswerEnvelope:
    """A payer's message: what it owes of a statement, with its signature (unverified).

    `own` is its own statement, in the first answer if that differs.
    """

    contract: ContractName
    period: int
    statement: StatementId
    outcome: AnswerOutcome
    amount: Decimal
    own: Statement | None
    own_document: bytes | None
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcessionEnvelope:
    """A provider's message: it takes the payer's own statement, which ends the dispute."""

    contract: ContractName
    period: int
    statement: StatementId


BillEnvelope = StatementEnvelope | StatementAnswerEnvelope | ConcessionEnvelope


def bills_sentence(statement: StatementId) -> str:
    """What a provider signs."""
    return f"bills {statement}"


def owes_sentence(statement: StatementId, outcome: AnswerOutcome, amount: Decimal) -> str:
    """What a payer signs."""
    return f"owes {statement} {outcome.value} {plain(amount)}"


def read_statement_message(body: bytes) -> StatementEnvelope:
    """The statement in a body; ValueError or Refused for anything that is not just that."""
    given = _fields(body, "document", "signature")
    document = str(given["document"]).encode()
    return StatementEnvelope(
        statement=statement_from(document),
        document=document,
        signature=_signature(given["signature"]),
    )


def read_statement_answer(body: bytes) -> StatementAnswerEnvelope:
    """The answer in a body; ValueError or Refused for anything that is not just that."""
    given = _fields(
        body, "amount", "contract", "outcome", "own", "period", "signature", "statement"
    )
    own = None if given["own"] is None else str(given["own"]).encode()
    amount = Decimal(str(given["amount"])[:60])
    if not amount.is_finite() or plain(amount) != given["amount"]:
        raise ValueError("no amount")
    return StatementAnswerEnvelope(
        contract=ContractName(check_name("contract", given["contract"])),
        period=_period(given["period"]),
        statement=StatementId(checked_revision(given["statement"])),
        outcome=AnswerOutcome(given["outcome"]),
        amount=amount,
        own=None if own is None else statement_from(own),
        own_document=own,
        signature=_signature(given["signature"]),
    )


def read_concession(body: bytes) -> ConcessionEnvelope:
    """The concession in a body; ValueError or Refused for anything that is not just that."""
    given = _fields(body, "contract", "period", "statement")
    return ConcessionEnvelope(
        contract=ContractName(check_name("contract", given["contract"])),
        period=_period(given["period"]),
        statement=StatementId(checked_revision(given["statement"])),
    )


def _fields(body: bytes, *names: str) -> Mapping[str, Any]:
    given = json.loads(body)
    if not isinstance(given, dict) or set(given) != set(names):
        raise ValueError("not these fields")
    return given


def _period(given: object) -> int:
    if isinstance(given, int) and not isinstance(given, bool) and 0 < given < PERIOD_MAX:
        return given
    raise ValueError("no period")


def _signature(given: object) -> bytes:
    if isinstance(given, str) and len(given) == SIGNATURE_LENGTH:
        return bytes.fromhex(given)
    raise ValueError("no signature")
