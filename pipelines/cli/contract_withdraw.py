"""`medusa contract withdraw`: end a definition at the seller of its stream."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home

HELP = "end a definition of boxes at the seller"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract withdraw`."""
    parser.add_argument("name", metavar="NAME", help="of the definition")
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Withdraw it; the seller ends it when the message arrives."""
    from pipelines.operations.boxes_of_buyer import withdraw

    withdraw(settings, options.participant, options.name)
    print(f"definition {options.name} is withdrawn")
    return 0
