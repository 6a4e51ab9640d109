"""`medusa view remove`: remove a view, so that its buckets may be trimmed."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home

HELP = "remove a view; its buckets may then be trimmed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa view remove`."""
    parser.add_argument("name", metavar="NAME")
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Remove it; replays that read it continue."""
    from pipelines.operations.stream_views import remove_view

    participant = remove_view(settings, options.participant, options.name)
    print(f"removed view {options.name} of {participant}")
    return 0
