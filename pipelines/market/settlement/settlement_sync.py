"""A participant's part in settlements: count final rows, state periods, answer statements.

Numbered, and the same numbers are in the code:

1. count the final rows of each sold stream, and of what moved fragments read and write, in the
   period that is stated next; what is counted may be trimmed
2. state the period once it is over, by the clock and by the stable prefix of the stream, and the
   payer of load when it has recomputed its samples (`sample_sync.py`); the provider's statement is
   signed and sent with the next messages
3. answer the statements of providers of which this home has made its own
4. end disputes in which the rows here have become those that the provider's statements say, and
   concede those in which the payer's samples are right
5. send statements again that have had no answer for a day

All state is stored in the home, and each of these is one transaction with a key of its own: a look
that was cut short is completed by the next one, and nothing is stated or booked twice.
"""

from __future__ import annotations

from collections.abc import Callable

from medusa_core.errors import Conflict, Refused
from medusa_core.market.bill_answers import bill_answer
from medusa_core.market.bill_comparison import (
    AnswerOutcome,
    StatementComparison,
    compare_statements,
)
from medusa_core.market.bill_reconciliation import (
    claimed_digests,
    is_explained,
    period_under_claimed_revision,
    with_agreed_corrections,
)
from medusa_core.market.bill_statements import (
    ChargeKind,
    Statement,
    content_statement,
    repriced,
    statement_document,
)
from medusa_core.market.load_statements import load_statement
from medusa_core.market.samples import Sample
from medusa_core.market.settlement_periods import SettlementPeriod, is_over, next_period
from medusa_core.market.terms import Content, ContractName, Movement
from medusa_core.names import Participant
from pipelines.base import clock
from pipelines.base.failpoints import reached
from pipelines.catalog.settlement_store import (
    BilledContract,
    ReceivedStatement,
    Settlements,
)
from pipelines.market.settlement.sample_sync import SampleSync

LOOKS_S = 5.0
"""How often a loop counts and states."""

PERIODS_MAX = 64
"""The most periods of a contract that are stated at a time."""

ANSWERS_MAX = 64
FOREVER = 2**53
"""After every period."""


class SettlementSync:
    """Settles the contracts of a home that bill something; `on_error` receives what was refused.

    `looks_s` is how often a call does anything; 0: always. `samples` recomputes samples of load
    (None: no samples are taken).
    """

    def __init__(
        self,
        settlements: Settlements,
        here: Participant,
        on_error: Callable[[Exception], None] = lambda error: None,
        *,
        looks_s: float = LOOKS_S,
        samples: SampleSync | None = None,
    ) -> None:
        self._settlements = settlements
        self._here = here
        self._on_error = on_error
        self._looks_s = looks_s
        self._samples = samples
        self._next_s = self._began_s = clock.monotonic_s()

    def settle(self) -> int:
        """Count, state and answer what is to be done now; how much was stated and answered."""
        if clock.monotonic_s() < self._next_s:
            return 0
        self._next_s = clock.monotonic_s() + self._looks_s
        done = 0
        for contract in self._settlements.billed_contracts():
            try:
                done += self._state(contract)
            except (Conflict, Refused) as error:
                self._on_error(error)  # if another one has counted, the next look reads again
        done += sum(self._is_answered(one) for one in self._settlements.to_answer(ANSWERS_MAX))  # 3
        done += sum(self._is_ended(*one) for one in self._settlements.open_disputes())  # 4
        done += 0 if self._samples is None else self._samples.judge()
        return done + self._settlements.send_again()  # 5

    def compared(self, received: ReceivedStatement) -> StatementComparison:
        """A provider's statement and this home's, as they are answered."""
        return compare_statements(received.claimed, self._own(received))

    def _state(self, contract: BilledContract) -> int:
        before, made = contract.before, 0
        while made < PERIODS_MAX:
            period = next_period(contract.revisions, before, contract.ends_at_ms)
            if period is None or period.from_ms > contract.clock_ms:
                break
            if not self._is_stated(contract, period):
                break
            before, made = period, made + 1
        return made

    def _is_stated(self, contract: BilledContract, period: SettlementPeriod) -> bool:
        cut_us = period.cut_us(contract.width_us)
        counted = self._settlements.count(contract.contract, period, cut_us)  # 1
        reached("settlement.counted")
        is_load = isinstance(period.terms.subject, Movement)
        samples = self._samples if is_load else None
        is_verified = samples is None or samples.verify(contract.contract, period)
        waited_ms = int((clock.monotonic_s() - self._began_s) * 1_000)
        if (
            counted is None
            or not is_over(period, self._here, contract.clock_ms, counted.stable_us, waited_ms)
            or not is_verified
        ):
            return False
        found: tuple[Sample, ...] = ()
        if samples is not None and self._here == period.terms.payer:
            if not samples.look_again(contract.contract, period):
                return False
            found = samples.found(contract.contract, period)
        ranges, changes = self._settlements.ranges(contract.contract, period.number)
        if is_load:
            moves = self._settlements.billed_moves(contract.contract, period)
            statement = load_statement(period, moves, ranges, found)
        else:
            statement = content_statement(period, ranges, changes)
        document = statement_document(statement)
        self._settlements.make(document, cut_us, counted, is_last=period.is_last)  # 2
        reached("settlement.stated")
        return True

    def _is_answered(self, received: ReceivedStatement) -> bool:
        try:
            comparison = self.compared(received)
            answer = bill_answer(self._here, comparison, comparison.outcome)
            is_new = self._settlements.answer(answer)
        except (Conflict, Refused) as error:
            self._on_error(error)
            return False
        reached("settlement.answered")
        return is_new

    def _own(self, received: ReceivedStatement) -> Statement:
        claimed = received.claimed
        own = received.own
        period = period_under_claimed_revision(claimed, own, received.revisions)
        if period is not None:
            own = self._made_again(own, period)
        corrected = [
            charge.from_us
            for charge in (*claimed.charges, *own.charges)
            if charge.kind is ChargeKind.CORRECTION
        ]
        if not corrected:
            return own
        earlier = claimed_digests(self._settlements.claimed(claimed.contract, claimed.period))
        held = self._settlements.held_digests(claimed.contract, corrected)
        return with_agreed_corrections(claimed, own, earlier, held)

    def _made_again(self, own: Statement, period: SettlementPeriod) -> Statement:
        """This home's statement under another revision; load from what was counted of it, which is
        kept until the next period is stated."""
        if isinstance(period.terms.subject, Content):
            return repriced(own, period)
        ranges, _ = self._settlements.ranges(own.contract, period.number)
        if not ranges:
            return own
        moves = self._settlements.billed_moves(own.contract, period)
        found = self._samples.found(own.contract, period) if self._samples is not None else ()
        return load_statement(period, moves, ranges, found)

    def _is_ended(self, contract: ContractName, period: int) -> bool:
        known = self._settlements.bill_of_period(contract, period)
        if known is None or known.own is None:
            return False
        comparison = compare_statements(known.claimed, known.own)
        claimed = claimed_digests(self._settlements.claimed(contract, FOREVER))
        begins = [one.from_us for one in comparison.differences]
        if not is_explained(comparison, claimed, self._settlements.held_digests(contract, begins)):
            return False
        return self._settlements.answer(bill_answer(self._here, comparison, AnswerOutcome.CLAIMED))
