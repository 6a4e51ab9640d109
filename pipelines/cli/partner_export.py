"""`medusa partner export`: write the file of a partner into the contracts folder."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_contracts, add_home

HELP = "write the file of a partner that has joined into the contracts folder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa partner export`."""
    parser.add_argument("partner", metavar="PARTNER")
    add_contracts(parser)
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Write it; fields that it has already stay."""
    from pipelines.operations.partner_management import export_partner

    written = export_partner(settings, options.participant, options.partner, options.contracts)
    print(f"the file of {written.partner} is {written.file}")
    return 0
