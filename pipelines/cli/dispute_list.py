"""`medusa dispute list`: the disputes about statements, and how they ended."""

from __future__ import annotations

import argparse
import json

from medusa_core.market.terms import plain
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_home, add_json

HELP = "disputes about statements, also those that have ended"
HEADING = ("contract", "period", "state", "claimed", "agreed", "blocked", "currency",
           "differs from", "until")  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa dispute list`."""
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print a line for each dispute, with the first segment in which the statements differ."""
    from pipelines.operations.home_books import document, list_disputes

    found = list_disputes(settings, options.participant)
    if options.json:
        print(json.dumps([document(one) for one in found], indent=1))
    elif not found:
        print("nothing is disputed")
    else:
        rows = [
            (
                one.contract, one.period, one.state, plain(one.claimed), plain(one.agreed),
                plain(one.blocked), one.currency, iso(one.from_us), iso(one.to_us),
            )
            for one in found
        ]  # fmt: skip
        print(table(HEADING, rows))
    return 0
