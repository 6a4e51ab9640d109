"""The books of a home in Postgres, as its people read them."""

from __future__ import annotations

from medusa_core.errors import Refused
from medusa_core.market.bill_statements import Statement, statement_from
from pipelines.catalog.book_records import AccountBalance, BillStatus, DisputeStatus, LedgerLine
from pipelines.catalog.postgres.statements import NamedStatements, engine_with_timeouts


class PostgresBooks(NamedStatements):
    """Reads the books of a home, as its job logs in."""

    def balances(self, partner: str | None = None) -> tuple[AccountBalance, ...]:
        """The balance of each account, of one partner or of all."""
        rows = self._rows("account_balances", partner=partner)
        return tuple(AccountBalance(**row) for row in rows)

    def lines(self, partner: str | None = None) -> tuple[LedgerLine, ...]:
        """The postings in the order in which they were made."""
        rows = self._rows("ledger_lines", partner=partner)
        return tuple(LedgerLine(**row) for row in rows)

    def bills(self, contract: str | None = None) -> tuple[BillStatus, ...]:
        """The statements that are known, of one contract or of all."""
        return tuple(BillStatus(**row) for row in self._rows("bills", contract=contract))

    def disputes(self) -> tuple[DisputeStatus, ...]:
        """The disputes, also those that have ended."""
        return tuple(DisputeStatus(**row) for row in self._rows("bill_disputes"))

    def statements(self, contract: str, period: int) -> tuple[Statement, ...]:
        """The statements of a period, the provider's first; Refused if none is known."""
        rows = self._rows("bill_documents", contract=contract, period=period)
        if not rows:
            raise Refused(
                f"no statement of contract {contract}, period {period}, is known here: list them "
                "with medusa statement"
            )
        return tuple(statement_from(bytes(row["document"])) for row in rows)


def open_books(url: str) -> PostgresBooks:
    """The books of the home at `url`; one connection."""
    return PostgresBooks(engine_with_timeouts(url))
