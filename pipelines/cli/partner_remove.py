"""`medusa partner remove`: refuse a partner from now on."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home

HELP = "refuse a partner from now on: its tokens, grants and holds end"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa partner remove`."""
    parser.add_argument("partner", metavar="PARTNER")
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Remove it; what both have signed stays in the home."""
    from pipelines.operations.partner_management import remove_partner

    removed = remove_partner(settings, options.participant, options.partner)
    print(
        f"{removed} is refused from now on; its contracts stay as they were signed. To make it a "
        f"partner again: medusa partner invite {removed}"
    )
    return 0
