"""`medusa dispute concede`: as the provider, take the figures of the payer."""

from __future__ import annotations

import argparse

from medusa_core.market.terms import plain
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_statement

HELP = "as the provider, take the figures of the payer"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa dispute concede`."""
    add_statement(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """End the dispute; the partner books the same when the message arrives."""
    from pipelines.operations.home_books import end_dispute

    owed = end_dispute(
        settings, options.participant, options.contract, options.period, concedes=True
    )
    print(
        f"the dispute about {options.contract}, period {options.period}, "
        f"is conceded: the payer owes {plain(owed)} once its home has the message"
    )
    return 0
