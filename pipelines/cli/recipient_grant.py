"""`medusa recipient grant`: let a recipient read a stream."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home

HELP = "let a recipient read a stream"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa recipient grant`."""
    parser.add_argument("recipient", metavar="RECIPIENT")
    parser.add_argument("stream", metavar="STREAM")
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Grant it."""
    from pipelines.operations.recipient_management import grant_stream

    name, stream = options.recipient, options.stream
    is_new = grant_stream(settings, options.participant, name, stream)
    print(f"{name} may {'now' if is_new else 'already'} read {stream}")
    return 0
