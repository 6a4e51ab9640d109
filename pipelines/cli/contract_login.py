"""`medusa contract login`: the URL with which the owner of a home logs in, to edit contracts.

The URL names a file that holds the password: a password in it could be read in the list of
processes.
"""

from __future__ import annotations

import argparse
import sys

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home

HELP = "print the URL with which the owner of a home logs in: for psql"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract login`."""
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the URL; Refused for a home that was not made in this folder."""
    from pipelines.catalog.postgres.home_database import catalog_url
    from pipelines.homes.home import (
        address_of_server,
        chosen_participant,
        known_homes,
        open_homes,
    )
    from pipelines.homes.home_logins import write_password_file

    chosen = chosen_participant(settings, options.participant)
    if chosen not in known_homes(settings.directory):
        raise Refused(
            f"the home of {chosen} was not made in {settings.directory}: its owner logs in with "
            "the URL in MEDUSA_CATALOG_URL"
        )
    with open_homes(settings, alone=False) as homes:
        owner = homes.url(chosen, "owner")
    assert owner is not None, "it is known"
    url = catalog_url(owner).set(drivername="postgresql")
    passfile = write_password_file(settings.directory, chosen, "owner", url)
    shown = url._replace(password=None).update_query_dict({"passfile": str(passfile.resolve())})
    print(shown.render_as_string())
    if address_of_server(settings, chosen) is None:
        print("it can be reached while a participant of the folder runs", file=sys.stderr)
    return 0
