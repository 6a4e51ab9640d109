"""A payer draws at the rate of the revision that its provider has stated, and at no other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

import pytest

from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.market.bill_comparison import AnswerOutcome
from medusa_core.market.bill_messages import StatementAnswerEnvelope
from medusa_core.market.bill_statements import Statement, statement_id
from medusa_core.market.sample_claims import Commitment
from medusa_core.market.terms import ContractName, Revision
from medusa_core.names import Participant
from pipelines.catalog.settlement_store import DisputedStatements
from pipelines.market.sync.bill_inbox import BillInbox
from tests.agreements.building import ALPHA, BETA
from tests.market.test_samples import (
    BEGINS_US,
    BUCKETS,
    COUNTED,
    DRAWN,
    SEED,
    WIDTH_US,
    a_commitment,
    a_sample,
    statements,
)

OTHER = Revision("f" * 64)


@dataclass
class Billed:
    """A provider's home that has stated a period under one revision and has agreed to two: under
    OTHER every bucket is drawn."""

    claimed: Statement

    def bill_of_period(self, contract: ContractName, period: int) -> DisputedStatements:
        return DisputedStatements(claimed=self.claimed, own=None, is_open=False)

    def commitments(self, statement: Statement) -> tuple[Commitment, ...]:
        return (a_commitment(rate=Decimal(1) if statement.revision == OTHER else None),)


def test_a_payer_does_not_choose_another_revision_to_draw_more_buckets() -> None:
    begins = (BEGINS_US + at * WIDTH_US for at in range(BUCKETS))
    parts = (Range(from_us, from_us + WIDTH_US) for from_us in begins)
    claimed, own = statements(a_sample(next(part for part in parts if part not in DRAWN)))
    own = replace(own, revision=OTHER)
    answer = StatementAnswerEnvelope(
        contract=claimed.contract, period=1, statement=statement_id(claimed),
        outcome=AnswerOutcome.DISPUTED, amount=own.total, own=own, own_document=b"",
        signature=b"", seeds={1: SEED},
    )  # fmt: skip
    inbox = BillInbox(Billed(claimed), Participant(BETA), {})  # type: ignore[arg-type]
    with pytest.raises(Refused, match=f"of {COUNTED} .* which was not drawn from its seed"):
        inbox.take(1, ALPHA, answer)
