"""`medusa settle`: count, state, send and answer what is due now, whether the loop runs or not."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from medusa_core.market.terms import plain
from pipelines.base.settings import Settings
from pipelines.base.text_table import printable, table
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from pipelines.operations.settling import SettlementResult

HELP = "settle contracts now: state periods that are over, send and answer statements"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa settle`."""
    parser.add_argument(
        "--explain", action="store_true", help="print what would be done, change nothing"
    )
    add_home(parser, "who (default: the only one)")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Settle, and print what is owed over all contracts of each partner."""
    from pipelines.operations.home_books import document
    from pipelines.operations.settling import explain_settlement, settle_now

    if options.explain:
        steps = explain_settlement(settings, options.participant)
        if options.json:
            print(json.dumps([document(step) for step in steps], indent=1))
        else:
            rows = [(step.contract, step.period, step.action) for step in steps]
            print(table(("contract", "period", "next"), rows) if rows else "no contract bills here")
        return 0
    result = settle_now(settings, options.participant)
    if options.json:
        whole = document(result) | {
            "due": [document(one) for one in result.due],
            "disputed": [document(one) for one in result.disputed],
            "problems": [*result.problems],
        }
        print(json.dumps(whole, indent=1))
        return 0
    print(render(result))
    for problem in result.problems:
        print(f"medusa: {printable(problem)}", file=sys.stderr)
    return 0


def render(result: SettlementResult) -> str:
    """What was done, what is owed, and what is in dispute."""
    from pipelines.operations.settling import dispute_line

    lines = [f"{result.settled} statements of {result.participant} made and answered"]
    if result.not_sent:
        lines.append(f"{result.not_sent} messages not sent yet: they are sent again")
    for one in result.due:
        if not one.balance:
            lines.append(f"nothing is owed between {result.participant} and {one.partner}")
        else:
            debtor, creditor = result.participant, one.partner
            if one.balance > 0:
                debtor, creditor = creditor, debtor
            lines.append(f"{debtor} owes {creditor} {plain(abs(one.balance))} {one.currency}")
    lines += map(dispute_line, result.disputed)
    return "\n".join(lines)
