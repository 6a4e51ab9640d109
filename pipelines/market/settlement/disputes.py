"""The end of a dispute about a statement: either party takes the figures of the other.

The payer's home ends it: the payer signs what it owes. A provider that gives up sends the payer a
concession, and the payer's home then ends the dispute. So both book the same, even if both give up
at once.
"""

from __future__ import annotations

from decimal import Decimal

from medusa_core.errors import Refused
from medusa_core.market.bill_answers import bill_answer
from medusa_core.market.bill_comparison import AnswerOutcome, compare_statements
from medusa_core.market.bill_statements import Statement
from medusa_core.market.terms import ContractName
from medusa_core.names import Participant
from pipelines.catalog.settlement_store import Settlements


class Disputes:
    """Ends disputes in the home of `here`."""

    def __init__(self, settlements: Settlements, here: Participant) -> None:
        self._settlements = settlements
        self._here = here

    def withdraw(self, contract: ContractName, period: int) -> Decimal:
        """As the payer: owe what the provider claims; how much that is.

        Raises Refused if there is no open dispute, or this home is not the payer.
        """
        claimed, own = self._open(contract, period)
        if claimed.payer != self._here:
            raise Refused(
                f"{self._here} is the provider of contract {contract}: medusa dispute concede"
            )
        comparison = compare_statements(claimed, own)
        answer = bill_answer(self._here, comparison, AnswerOutcome.CLAIMED)
        self._settlements.answer(answer)
        return answer.amount

    def concede(self, contract: ContractName, period: int) -> Decimal:
        """As the provider: take the payer's own statement; how much that is.

        Raises Refused if there is no open dispute, or this home is not the provider.
        """
        claimed, own = self._open(contract, period)
        if claimed.provider != self._here:
            raise Refused(
                f"{self._here} is the payer of contract {contract}: medusa dispute withdraw"
            )
        self._settlements.concede(contract, period)
        return own.total

    def _open(self, contract: ContractName, period: int) -> tuple[Statement, Statement]:
        """The provider's statement and the payer's of a dispute that has not ended."""
        known = self._settlements.bill_of_period(contract, period)
        if known is None or known.own is None or not known.is_open:
            raise Refused(f"there is no open dispute about contract {contract}, period {period}")
        return known.claimed, known.own
