"""`medusa dispute withdraw`: as the payer, owe what the provider claims."""

from __future__ import annotations

import argparse

from medusa_core.market.terms import plain
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_statement

HELP = "as the payer, owe what the provider claims"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa dispute withdraw`."""
    add_statement(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """End the dispute; the partner books the same when the message arrives."""
    from pipelines.operations.home_books import end_dispute

    owed = end_dispute(
        settings, options.participant, options.contract, options.period, concedes=False
    )
    print(
        f"the dispute about {options.contract}, period {options.period}, "
        f"is withdrawn: {plain(owed)} is owed"
    )
    return 0
