"""The payer's answer to a statement: what it owes, what is blocked, and the entries of either home.

Both homes make it from the same two documents, so that the provider accepts an answer only if it
would have made the same one.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from medusa_core.market.bill_comparison import AnswerOutcome, StatementComparison
from medusa_core.market.bill_statements import StatementId, statement_document, statement_id
from medusa_core.market.books import Entry, statement_entries
from medusa_core.market.money import ZERO, total_of
from medusa_core.names import Participant


@dataclass(frozen=True, slots=True, kw_only=True)
class BillAnswer:
    """What the payer owes of a statement in all, and the entries that this makes in a home.

    `own` is the payer's own statement in a dispute; `segment` the first one in which they differ.
    """

    statement: StatementId
    outcome: AnswerOutcome
    amount: Decimal
    entries: tuple[Entry, ...]
    own: bytes | None = None
    blocked: Decimal = ZERO
    segment: tuple[int, int] | None = None


def bill_answer(
    here: Participant, comparison: StatementComparison, outcome: AnswerOutcome
) -> BillAnswer:
    """The answer with an outcome, as the home of `here` books it."""
    owed = comparison.amounts(outcome)
    booked = comparison.amounts(AnswerOutcome.DISPUTED) if outcome.ends_dispute else None
    is_disputed = outcome is AnswerOutcome.DISPUTED
    return BillAnswer(
        statement=statement_id(comparison.claimed),
        outcome=outcome,
        amount=total_of(owed.values()),
        entries=statement_entries(here, comparison.claimed, outcome, owed, booked),
        own=statement_document(comparison.own) if is_disputed else None,
        blocked=comparison.blocked if is_disputed else ZERO,
        segment=comparison.segment if is_disputed else None,
    )
