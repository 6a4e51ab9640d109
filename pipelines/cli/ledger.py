"""`medusa ledger`: the books of a home, what is owed and what caused it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from medusa_core.market.terms import plain
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.operations.home_books import Ledger

HELP = "the books: what is owed under contracts, and what caused it"
COLUMNS = ("entry", "made", "kind", "partner", "currency", "account", "amount", "contract",
           "period", "statement", "reference")  # fmt: skip
SHOWN = ("entry", "made", "kind", "partner", "account", "amount", "currency", "cause")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa ledger`."""
    parser.add_argument("--partner", metavar="NAME", help="of this partner alone")
    forms = parser.add_mutually_exclusive_group()
    add_json(forms)
    forms.add_argument("--csv", action="store_true", help="print the postings as CSV")
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the balances and the postings."""
    from pipelines.operations.home_books import csv_text, document, read_ledger

    found = read_ledger(settings, options.participant, options.partner)
    lines = [document(line) | {"made": iso(line.made_ms * 1_000)} for line in found.lines]
    if options.json:
        balances = [document(one) for one in found.balances]
        whole = {"participant": found.participant, "balances": balances, "postings": lines}
        print(json.dumps(whole, indent=1))
    elif options.csv:
        print(csv_text(lines, COLUMNS), end="")
    else:
        print(render(found))
    return 0


def render(found: Ledger) -> str:
    """Balances, then postings; a posting with what caused it."""
    if not found.lines:
        return f"the books of {found.participant} are empty"
    balances = [
        (
            one.partner, one.account, plain(one.balance), one.currency,
            _meaning(one.account, is_credit=one.balance < 0),
        )
        for one in found.balances
    ]  # fmt: skip
    rows = [
        (
            line.entry, iso(line.made_ms * 1_000)[:19], line.kind, line.partner, line.account,
            plain(line.amount), line.currency,
            line.reference or f"{line.contract}, period {line.period}",
        )
        for line in found.lines
    ]  # fmt: skip
    heading = ("partner", "account", "balance", "currency", "meaning")
    return f"{table(heading, balances)}\n\n{table(SHOWN, rows)}"


def _meaning(account: str, *, is_credit: bool) -> str:
    if account != "partner":
        return ""
    return "this home owes" if is_credit else "the partner owes"
