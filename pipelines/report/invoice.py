"""The invoice of a statement: one HTML file that opens anywhere, with nothing but itself."""

from __future__ import annotations

from pathlib import Path

from medusa_core.market.bill_statements import Statement, statement_id
from medusa_core.market.terms import plain
from pipelines.base.time_text import iso
from pipelines.catalog.book_records import BillStatus
from pipelines.report.html_file import fact_list, html_page, section, write_whole
from pipelines.report.markup import Markup, table, tag

HEADING = ("charge", "of", "from", "until", "quantity", "price", "amount")
UNITS = "Amounts are in {}; load is in seconds of a core, at a price for an hour"


def write_invoice(path: Path, statement: Statement, status: BillStatus) -> None:
    """Write the invoice, replacing what is at `path`; Unavailable if it cannot be written."""
    write_whole(path, invoice_page(statement, status))


def invoice_page(statement: Statement, status: BillStatus) -> str:
    """The whole text of the page."""
    title = f"Invoice of {statement.provider} to {statement.payer}: {statement.contract}, period "
    return html_page(f"{title}{statement.period}", _content(title, statement, status))


def _content(title: str, statement: Statement, status: BillStatus) -> list[Markup]:
    currency = statement.currency
    facts = [
        (f"{plain(statement.total)} {currency}", "charged"),
        (status.state, "state"),
        ("-" if status.owed is None else f"{plain(status.owed)} {currency}", "owed by both homes"),
        (f"{plain(status.blocked)} {currency}", "blocked by a dispute"),
    ]
    rows = [
        (
            charge.kind.value, charge.subject, iso(charge.from_us), iso(charge.to_us),
            plain(charge.quantity), plain(charge.price), plain(charge.amount),
        )
        for charge in statement.charges
    ]  # fmt: skip
    period = f"From {iso(statement.from_ms * 1_000)} until before {iso(statement.to_ms * 1_000)}"
    return [
        tag("h1", f"{title}{statement.period}"),
        tag("p", period),
        fact_list(facts),
        section(
            "Charges",
            table(HEADING, rows, UNITS.format(currency)),
        ),
        section(
            "Identity",
            tag("p", f"Statement {statement_id(statement)}"),
            tag("p", f"Revision {statement.revision}"),
        ),
    ]
