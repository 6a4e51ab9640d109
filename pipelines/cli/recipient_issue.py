"""`medusa recipient issue`: print a profile file with a new token for a recipient."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC

from medusa_core.grid import parse_duration_us
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home

HELP = "print a profile file with a new token for a recipient, this once"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa recipient issue`."""
    parser.add_argument("recipient", metavar="RECIPIENT", help="a name for the reader")
    stream = "grant this stream as well (may be repeated)"
    parser.add_argument("--stream", metavar="STREAM", action="append", default=[], help=stream)
    expires = "how long the token is valid (default: 90d, at most 366d)"
    parser.add_argument("--expires", metavar="DURATION", default="90d", help=expires)
    endpoint = "where the recipient reaches this home (default: the address of its exchange)"
    parser.add_argument("--endpoint", metavar="URL", help=endpoint)
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the profile file on standard output, and nothing else."""
    from pipelines.operations.recipient_management import IssueRequest, issue_profile

    issued = issue_profile(
        settings,
        IssueRequest(
            recipient=options.recipient,
            participant=options.participant,
            lifetime_ms=parse_duration_us(options.expires) // 1_000,
            streams=tuple(options.stream),
            endpoint=options.endpoint,
        ),
    )
    print(issued.profile)
    until = issued.expires_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    print(
        f"token {issued.token_id} of {issued.recipient} is valid until {until}; the profile is "
        "shown this once: send it in private",
        file=sys.stderr,
    )
    if not issued.is_public:
        print(
            "this endpoint is reached from this machine alone: set MEDUSA_EXCHANGE_NAME and start "
            "medusa run for recipients elsewhere",
            file=sys.stderr,
        )
    return 0
