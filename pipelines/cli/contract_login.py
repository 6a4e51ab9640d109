"""`medusa contract login`: how the owner of a home logs in to it, to edit contracts in SQL.

The URL holds the password, so it is printed for whoever asks in the folder of homes, and kept
nowhere.
"""

from __future__ import annotations

import argparse
import sys

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home


def print_login(settings: Settings, participant: str | None) -> int:
    """Print the owner's URL as psql takes it. Refused where the home is not of this folder: who
    made it by a URL of its own logs in with that."""
    from pipelines.catalog.postgres.postgres_catalog import catalog_url
    from pipelines.homes.home import chosen_participant, known_homes, open_homes

    chosen = chosen_participant(settings, participant)
    if chosen not in known_homes(settings.directory):
        raise Refused(
            f"the home of {chosen} was not made in {settings.directory}: its owner logs in with "
            "the URL in MEDUSA_CATALOG_URL"
        )
    with open_homes(settings, alone=False) as homes:
        urls = homes.urls(chosen)
    assert urls is not None, "it is known"
    url = catalog_url(urls.owner).set(drivername="postgresql")
    print(url.render_as_string(hide_password=False))
    if settings.catalog_url is None:
        print("it can be reached while a participant of the folder runs", file=sys.stderr)
    return 0


HELP = "print how the owner logs in to a home, with the password: for psql"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract login`."""
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the connection string of the owner."""
    return print_login(settings, options.participant)
