"""The books of a home for people: the ledger, statements, and what is disputed."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from decimal import Decimal
from io import StringIO
from typing import Any

from medusa_core.market.bill_comparison import ChargeDifference, compare_statements
from medusa_core.market.bill_statements import Statement, statement_id
from medusa_core.market.terms import ContractName, plain
from medusa_core.names import Participant
from pipelines.base.settings import Settings
from pipelines.catalog.book_records import AccountBalance, BillStatus, DisputeStatus, LedgerLine
from pipelines.catalog.postgres.books import PostgresBooks, open_books
from pipelines.catalog.postgres.settlements import open_settlements
from pipelines.homes.home import chosen_participant, home_server
from pipelines.market.settlement.disputes import Disputes
from pipelines.sinks.csv_text import FORMULA

_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The entries of a home's books, and the balance of each account."""

    participant: Participant
    balances: tuple[AccountBalance, ...]
    lines: tuple[LedgerLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementView:
    """A statement of a period, what became of it, and where the two statements differ."""

    participant: Participant
    status: BillStatus
    statement: Statement
    differences: tuple[ChargeDifference, ...]


def read_ledger(settings: Settings, participant: str | None, partner: str | None) -> Ledger:
    """The ledger of a home, of one partner or of all."""
    with _books(settings, participant) as (chosen, books):
        return Ledger(
            participant=chosen, balances=books.balances(partner), lines=books.lines(partner)
        )


def list_bills(
    settings: Settings, participant: str | None, contract: str | None
) -> tuple[BillStatus, ...]:
    """The statements that a home knows."""
    with _books(settings, participant) as (_, books):
        return books.bills(contract)


def view_statement(
    settings: Settings, participant: str | None, contract: str, period: int
) -> StatementView:
    """The provider's statement of a period, else the home's own; Refused if there is none."""
    with _books(settings, participant) as (chosen, books):
        statements = books.statements(contract, period)
        status = next(one for one in books.bills(contract) if one.period == period)
        first, last = statements[0], statements[-1]
        return StatementView(
            participant=chosen,
            status=status,
            statement=first,
            differences=compare_statements(first, last).differences,
        )


def list_disputes(settings: Settings, participant: str | None) -> tuple[DisputeStatus, ...]:
    """The disputes that a home knows, also those that have ended."""
    with _books(settings, participant) as (_, books):
        return books.disputes()


def end_dispute(
    settings: Settings, participant: str | None, contract: str, period: int, *, concedes: bool
) -> Decimal:
    """End a dispute with the other party's figures: the provider concedes, the payer withdraws.

    How much is owed of the statement then. Raises Refused for a dispute that is not there, or not
    this party's to end so.
    """
    chosen = chosen_participant(settings, participant)
    with (
        home_server(settings, chosen) as server,
        closing(open_settlements(server.login_url("job"))) as settlements,
    ):
        disputes = Disputes(settlements, chosen)
        end = disputes.concede if concedes else disputes.withdraw
        return end(ContractName(contract), period)


def document(record: object) -> dict[str, Any]:
    """A record for JSON: amounts as texts, which lose no digit."""
    fields: Mapping[str, Any] = asdict(record)  # type: ignore[call-overload]
    return {name: plain(of) if isinstance(of, Decimal) else of for name, of in fields.items()}


def statement_fields(view: StatementView) -> dict[str, Any]:
    """A statement for JSON."""
    return {
        **document(view.status),
        "statement": statement_id(view.statement),
        "revision": view.statement.revision,
        "charges": [
            document(charge) | {"kind": charge.kind.value} for charge in view.statement.charges
        ],
        "differences": [
            document(one) | {"kind": one.kind.value, "blocked": plain(one.blocked)}
            for one in view.differences
        ],
    }


def csv_text(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Rows as CSV with a heading; what a spreadsheet would run as a formula is quoted as text."""
    text = StringIO()
    writer = csv.DictWriter(text, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(row.get(name)) for name in names} for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    is_number = isinstance(value, str) and _NUMBER.fullmatch(value) is not None
    is_formula = isinstance(value, str) and re.match(FORMULA, value) is not None
    return f"'{value}" if is_formula and not is_number else value


@contextmanager
def _books(
    settings: Settings, participant: str | None
) -> Iterator[tuple[Participant, PostgresBooks]]:
    chosen = chosen_participant(settings, participant)
    with (
        home_server(settings, chosen) as server,
        closing(open_books(server.login_url("job"))) as books,
    ):
        yield chosen, books
