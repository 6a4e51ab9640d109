"""`medusa migrate`: bring a home's catalog to this version's schema."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home


def run_migrate(settings: Settings, participant: str | None) -> int:
    """Apply what is missing and print it; the same again changes nothing."""
    from pipelines.catalog.server.migrations import migrate
    from pipelines.homes.home import chosen_participant, migration_url

    chosen = chosen_participant(settings, participant)
    with migration_url(settings, chosen) as url:
        applied = migrate(url, chosen)
    print("\n".join(f"applied {name}" for name in applied) or "nothing to do: up to date")
    return 0


HELP = "bring a catalog to this version's schema"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa migrate`."""
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Apply what is missing to a home's catalog and print it."""
    return run_migrate(settings, options.participant)
