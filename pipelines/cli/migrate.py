"""`medusa migrate`: migrate a home's catalog to this version's schema."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home

HELP = "upgrade the schema of a home to this version's"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa migrate`."""
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Apply what is missing and print it; a second run changes nothing."""
    from pipelines.catalog.server.migrations import migrate
    from pipelines.homes.home import chosen_participant, migration_url

    chosen = chosen_participant(settings, options.participant)
    with migration_url(settings, chosen) as url:
        applied = migrate(url, chosen)
    print("\n".join(f"applied {name}" for name in applied) or "nothing to do: up to date")
    return 0
