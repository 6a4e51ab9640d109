"""`medusa statement`: the statements of a home, or one of them with its charges."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medusa_core.errors import Refused
from medusa_core.market.terms import plain
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_home, add_json, positive

if TYPE_CHECKING:
    from pipelines.catalog.book_records import BillStatus
    from pipelines.operations.home_books import StatementView

HELP = "statements of what is owed: list them, or print one, also as an invoice"
LISTED = ("contract", "period", "by", "state", "total", "owed", "blocked", "currency", "from",
          "until")  # fmt: skip
CHARGES = ("charge", "of", "from", "until", "quantity", "price", "amount")
CHARGE_FIELDS = ("kind", "subject", "period", "from_us", "to_us", "quantity", "price", "amount",
                 "digest")  # fmt: skip
BILL_FIELDS = ("contract", "period", "made_by", "state", "payer", "provider", "currency", "total",
               "owed", "blocked", "from_ms", "to_ms", "statement")  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa statement`."""
    parser.add_argument("contract", metavar="CONTRACT", nargs="?", help="of this contract alone")
    period = "print the statement of this period (1, 2, …) with its charges"
    parser.add_argument("period", metavar="PERIOD", nargs="?", type=positive, help=period)
    forms = parser.add_mutually_exclusive_group()
    add_json(forms)
    forms.add_argument("--csv", action="store_true", help="print CSV")
    focus = "print the charges of a period in the columns of FOCUS, as CSV"
    forms.add_argument("--focus", action="store_true", help=focus)
    html = "write the invoice of a period as one HTML file"
    forms.add_argument("--html", type=Path, metavar="FILE", help=html)
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """List the statements, or print one."""
    from pipelines.operations.home_books import csv_text, document, list_bills, view_statement

    if options.period is not None:
        view = view_statement(settings, options.participant, options.contract, options.period)
        print(_one(options, view))
        return 0
    if options.focus or options.html is not None:
        raise Refused("--focus and --html are of one statement: give CONTRACT and PERIOD")
    found = list_bills(settings, options.participant, options.contract)
    if options.json:
        print(json.dumps([document(one) for one in found], indent=1))
    elif options.csv:
        print(csv_text([document(one) for one in found], BILL_FIELDS), end="")
    else:
        print(render(found))
    return 0


def render(found: Sequence[BillStatus]) -> str:
    """A line for each statement."""
    if not found:
        return "no period has been stated: medusa settle"
    rows = [
        (
            one.contract, one.period, one.made_by, one.state, plain(one.total),
            "-" if one.owed is None else plain(one.owed), plain(one.blocked), one.currency,
            iso(one.from_ms * 1_000), iso(one.to_ms * 1_000),
        )
        for one in found
    ]  # fmt: skip
    return table(LISTED, rows)


def render_one(view: StatementView) -> str:
    """A statement with its charges, and where the other party's differs."""
    statement, status = view.statement, view.status
    lines = [
        f"{statement.provider} to {statement.payer}: contract {statement.contract}",
        f"period {statement.period}, {plain(statement.total)} {statement.currency}, {status.state}",
        f"statement {status.statement}",
    ]
    rows = [
        (
            one.kind.value, one.subject, iso(one.from_us), iso(one.to_us), plain(one.quantity),
            plain(one.price), plain(one.amount),
        )
        for one in statement.charges
    ]  # fmt: skip
    lines += ["", table(CHARGES, rows)]
    if view.differences:
        first = view.differences[0]
        segment = f"from {iso(first.from_us)} until {iso(first.to_us)}"
        lines += [
            "",
            f"the statements differ in {len(view.differences)} charges, first {segment}:",
            f"{plain(first.claimed)} is claimed, {plain(first.own)} is the payer's own figure",
        ]
    return "\n".join(lines)


def _one(options: argparse.Namespace, view: StatementView) -> str:
    from pipelines.operations.focus_rows import COLUMNS, focus_rows
    from pipelines.operations.home_books import csv_text, statement_fields
    from pipelines.report.invoice import write_invoice

    if options.json:
        return json.dumps(statement_fields(view), indent=1)
    if options.csv:
        return csv_text(statement_fields(view)["charges"], CHARGE_FIELDS).rstrip("\n")
    if options.focus:
        return csv_text([*focus_rows(view.statement)], COLUMNS).rstrip("\n")
    if options.html is not None:
        write_invoice(options.html, view.statement, view.status)
        return f"the invoice is in {options.html}"
    return render_one(view)
