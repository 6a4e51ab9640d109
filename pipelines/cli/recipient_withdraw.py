"""`medusa recipient withdraw`: end a recipient's access to a stream now."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home

HELP = "end a recipient's access to a stream now"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa recipient withdraw`."""
    parser.add_argument("recipient", metavar="RECIPIENT")
    parser.add_argument("stream", metavar="STREAM")
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Withdraw it."""
    from pipelines.operations.recipient_management import withdraw_stream

    withdraw_stream(settings, options.participant, options.recipient, options.stream)
    print(f"{options.recipient} may no longer read {options.stream}")
    return 0
