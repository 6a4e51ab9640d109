"""Partners' messages about statements, verified and brought into a home.

A statement counts if the provider has signed its hash; an answer if the payer has signed what it
owes, and this home computes the same from the two statements. Samples in it count if the payer has
drawn them from the seeds to which it had committed.
"""

from __future__ import annotations

from medusa_core.errors import Conflict, Refused
from medusa_core.market.bill_answers import BillAnswer, bill_answer
from medusa_core.market.bill_comparison import AnswerOutcome, compare_statements
from medusa_core.market.bill_messages import (
    BillEnvelope,
    ConcessionEnvelope,
    StatementAnswerEnvelope,
    StatementEnvelope,
    bills_sentence,
    owes_sentence,
)
from medusa_core.market.bill_statements import statement_id
from medusa_core.market.sample_claims import check_samples, check_seeds
from medusa_core.names import Participant
from pipelines.catalog.settlement_store import Bills, DisputedStatements
from pipelines.market.sync.verification import Keys, verified_sentence


class BillInbox:
    """Takes the messages of partners of `here`, whose keys are `keys`."""

    def __init__(self, bills: Bills, here: Participant, keys: Keys) -> None:
        self._bills = bills
        self._here = here
        self._keys = keys

    def take(self, envelope_id: int, sender: Participant, message: BillEnvelope) -> None:
        """Bring a message into the home; Refused if it is wrong, Conflict if it comes too early."""
        match message:
            case StatementEnvelope():
                sentence = bills_sentence(statement_id(message.statement))
                key = verified_sentence(sender, sentence, message.signature, self._keys)
                self._bills.take_bill(envelope_id, message, key)
            case StatementAnswerEnvelope():
                self._take_answer(envelope_id, sender, message)
            case ConcessionEnvelope():
                self._bills.take_concession(envelope_id, message, self._conceded(message))

    def _take_answer(
        self, envelope_id: int, sender: Participant, message: StatementAnswerEnvelope
    ) -> None:
        known = self._bills.bill_of_period(message.contract, message.period)
        if known is None or statement_id(known.claimed) != message.statement:
            raise Refused(
                f"this home has not billed period {message.period} of contract {message.contract} "
                "with that statement"
            )
        self._check_samples(known, message)
        answer = self._answer(known, message)
        if answer.amount != message.amount or answer.outcome is not message.outcome:
            raise Refused(
                f"{sender} states that it owes {message.amount:f} of period {message.period} of "
                f"contract {message.contract}, and the two statements give {answer.amount:f}"
            )
        sentence = owes_sentence(message.statement, message.outcome, message.amount)
        key = verified_sentence(sender, sentence, message.signature, self._keys)
        self._bills.take_bill_answer(envelope_id, answer, message, key)

    def _check_samples(self, known: DisputedStatements, message: StatementAnswerEnvelope) -> None:
        # The revision that this home has stated: a payer must not choose at which rate it draws.
        commitments = self._bills.commitments(known.claimed)
        check_seeds(message.period, message.seeds, commitments)
        if message.own is not None:
            check_samples(known.claimed, message.own, message.seeds, commitments)

    def _answer(self, known: DisputedStatements, message: StatementAnswerEnvelope) -> BillAnswer:
        """What this home would have been answered, from both statements."""
        if message.outcome.ends_dispute:
            if known.own is None:
                raise Conflict(
                    f"no dispute about period {message.period} of contract {message.contract} is "
                    "known yet: the end of it waits"
                )
            return bill_answer(
                self._here, compare_statements(known.claimed, known.own), message.outcome
            )
        if (message.outcome is AnswerOutcome.AGREED) != (message.own is None):
            raise Refused("a dispute has the payer's own statement, and nothing else has")
        comparison = compare_statements(known.claimed, message.own or known.claimed)
        return bill_answer(self._here, comparison, comparison.outcome)

    def _conceded(self, message: ConcessionEnvelope) -> BillAnswer | None:
        """How a dispute ends that the provider gives up; None if there is none."""
        known = self._bills.bill_of_period(message.contract, message.period)
        if known is None or known.own is None or not known.is_open:
            return None
        if statement_id(known.claimed) != message.statement:
            return None
        comparison = compare_statements(known.claimed, known.own)
        return bill_answer(self._here, comparison, AnswerOutcome.OWN)
