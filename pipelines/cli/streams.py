"""`medusa streams`: the streams of a home and how far each has come."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home, add_json

HELP = "the streams of a home and how far each has come"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa streams`."""
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the streams of a home."""
    from pipelines.cli.read import show_streams

    return show_streams(settings, options.participant, as_json=options.json)
