"""The content of envelopes about statements: a statement, the payer's answer, a concession.

The provider signs that it bills a statement, the payer signs what it owes of it. Both sign
sentences that name the hash of the statement, so that a signature proves what it is about.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from medusa_core.frozen import freeze
from medusa_core.market.bill_comparison import AnswerOutcome
from medusa_core.market.bill_statements import Statement, StatementId, statement_from
from medusa_core.market.message_fields import (
    contract_field,
    message_fields,
    signature_of,
    whole_number,
)
from medusa_core.market.terms import ContractName, checked_revision, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementEnvelope:
    """A provider's message: its statement, and its signature (unverified)."""

    statement: Statement
    document: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementAnswerEnvelope:
    """A payer's message: what it owes of a statement, with its signature (unverified).

    `own` is its own statement, in the first answer if that differs. `seeds` are those from which it
    has drawn the buckets that it has recomputed of the period, by the number of the move.
    """

    contract: ContractName
    period: int
    statement: StatementId
    outcome: AnswerOutcome
    amount: Decimal
    own: Statement | None
    own_document: bytes | None
    signature: bytes
    seeds: Mapping[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        freeze(self, "seeds")


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
    given = message_fields(body, "document", "signature")
    document = str(given["document"]).encode()
    return StatementEnvelope(
        statement=statement_from(document),
        document=document,
        signature=signature_of(given["signature"]),
    )


def read_statement_answer(body: bytes) -> StatementAnswerEnvelope:
    """The answer in a body; ValueError or Refused for anything that is not just that."""
    given = message_fields(
        body, "amount", "contract", "outcome", "own", "period", "signature", "statement", "seeds",
        later=("seeds",),
    )  # fmt: skip
    own = None if given["own"] is None else str(given["own"]).encode()
    amount = Decimal(str(given["amount"])[:60])
    if not amount.is_finite() or plain(amount) != given["amount"]:
        raise ValueError("no amount")
    return StatementAnswerEnvelope(
        contract=contract_field(given),
        period=whole_number(given["period"], 1),
        statement=StatementId(checked_revision(given["statement"])),
        outcome=AnswerOutcome(given["outcome"]),
        amount=amount,
        own=None if own is None else statement_from(own),
        own_document=own,
        signature=signature_of(given["signature"]),
        seeds=_seeds(given["seeds"] or {}),
    )


def _seeds(given: Mapping[str, object]) -> Mapping[int, bytes]:
    return {int(number): bytes.fromhex(str(seed)) for number, seed in given.items()}


def read_concession(body: bytes) -> ConcessionEnvelope:
    """The concession in a body; ValueError or Refused for anything that is not just that."""
    given = message_fields(body, "contract", "period", "statement")
    return ConcessionEnvelope(
        contract=contract_field(given),
        period=whole_number(given["period"], 1),
        statement=StatementId(checked_revision(given["statement"])),
    )
