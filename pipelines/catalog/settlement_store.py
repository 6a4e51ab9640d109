"""The store of statements and books in a home, as its participant's own program uses it.

`Bills` takes what partners send, in the transaction that ends the envelope. `Settlements` counts,
states and answers. The documents and amounts are made by `medusa_core.market`; that the books sum
to zero, and that nothing is booked twice, is the database's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from medusa_core.market.bill_answers import BillAnswer
from medusa_core.market.bill_messages import (
    ConcessionEnvelope,
    StatementAnswerEnvelope,
    StatementEnvelope,
)
from medusa_core.market.bill_statements import (
    BilledRange,
    RangeChange,
    Statement,
    StatementId,
)
from medusa_core.market.load_statements import BilledMove
from medusa_core.market.sample_claims import Commitment
from medusa_core.market.settlement_periods import ActiveRevision, SettlementPeriod
from medusa_core.market.terms import ContractName


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledContract:
    """A contract that bills something here, and the period that was stated last (None: none was).

    `width_us` is the width of a sold stream's buckets, `clock_ms` the home's clock.
    """

    contract: ContractName
    revisions: tuple[ActiveRevision, ...]
    ends_at_ms: int | None
    before: SettlementPeriod | None
    width_us: int
    clock_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRows:
    """Up to where all that a contract bills is final, and how often something was counted of it."""

    stable_us: int
    counts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedStatement:
    """A provider's statement that waits for an answer, and this home's own of the period."""

    claimed: Statement
    own: Statement
    revisions: tuple[ActiveRevision, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputedStatements:
    """The provider's statement of a period; the payer's own, if there was a dispute about it."""

    claimed: Statement
    own: Statement | None
    is_open: bool


class Bills(Protocol):
    """What partners send about statements, brought into a home."""

    def take_bill(self, envelope_id: int, message: StatementEnvelope, public_key: bytes) -> str:
        """Keep a provider's statement, whose signature was verified with this key."""

    def take_bill_answer(
        self,
        envelope_id: int,
        answer: BillAnswer,
        message: StatementAnswerEnvelope,
        public_key: bytes,
    ) -> str:
        """Book what a payer owes, whose signature was verified with this key."""

    def take_concession(
        self, envelope_id: int, message: ConcessionEnvelope, answer: BillAnswer | None
    ) -> str:
        """End a dispute with this home's own statement; None: there is no dispute."""

    def bill_of_period(self, contract: ContractName, period: int) -> DisputedStatements | None:
        """The statements of a period; None if the provider's is not known."""

    def commitments(self, statement: Statement) -> tuple[Commitment, ...]:
        """What the payer has committed to of the moves that a statement is about."""


class Settlements(Protocol):
    """What is counted, stated, answered and booked in a home."""

    def billed_contracts(self) -> tuple[BilledContract, ...]:
        """The contracts that bill something here and have not been stated to their end."""

    def count(
        self, contract: ContractName, period: SettlementPeriod, cut_us: int
    ) -> CountedRows | None:
        """Count the final rows of the period that is stated next; None: there are none yet."""

    def ranges(
        self, contract: ContractName, period: int
    ) -> tuple[Sequence[BilledRange], Sequence[RangeChange]]:
        """What is counted of a period, and what has changed of earlier ones."""

    def billed_moves(
        self, contract: ContractName, period: SettlementPeriod
    ) -> tuple[BilledMove, ...]:
        """The moves under a contract that were released and had not ended before a period."""

    def make(
        self, document: bytes, cut_us: int, counted: CountedRows, *, is_last: bool
    ) -> StatementId:
        """Keep this home's statement; Conflict if something was counted meanwhile."""

    def to_answer(self, bills_max: int) -> tuple[ReceivedStatement, ...]:
        """Statements of providers of which this home has made its own, and no answer."""

    def claimed(self, contract: ContractName, before: int) -> tuple[Statement, ...]:
        """The provider's statements of a contract, of periods before one, as received."""

    def held_digests(self, contract: ContractName, begins: Collection[int]) -> Mapping[int, str]:
        """The digest of the rows that are counted here, of ranges that begin at these places."""

    def open_disputes(self) -> tuple[tuple[ContractName, int], ...]:
        """The contract and the period of each open dispute in which this home pays."""

    def answer(self, answer: BillAnswer) -> bool:
        """Answer a statement, or end the dispute about it; False if it was answered so before."""

    def concede(self, contract: ContractName, period: int) -> bool:
        """Take the payer's statement in a dispute; False if there is none."""

    def send_again(self) -> int:
        """Send statements again that have had no answer for a day; how many."""

    def bill_of_period(self, contract: ContractName, period: int) -> DisputedStatements | None:
        """See `Bills.bill_of_period`."""
