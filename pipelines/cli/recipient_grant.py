"""`medusa recipient grant`: let a recipient read a stream."""

from __future__ import annotations

import argparse
import sys

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
    granted = grant_stream(settings, options.participant, name, stream)
    print(f"{name} may {'now' if granted.is_new else 'already'} read {stream}")
    if not granted.has_token:
        print(
            f"no valid token of {name} was issued yet: if the name is right, issue one with medusa "
            f"recipient issue {name}",
            file=sys.stderr,
        )
    return 0
