"""`medusa partner invite`: print a code with which a participant elsewhere joins."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from medusa_core.grid import parse_duration_us
from pipelines.base.settings import Settings
from pipelines.base.time_text import duration
from pipelines.cli.arguments import add_contracts, add_home

if TYPE_CHECKING:
    from pipelines.operations.partner_invitation import InvitationMade

HELP = "print a code with which a participant elsewhere joins, and wait until it has"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa partner invite`."""
    parser.add_argument("partner", metavar="PARTNER", help="the participant that is invited")
    expires = "how long the invitation is open (default: 1d, at most 31d)"
    parser.add_argument("--expires", metavar="DURATION", default="1d", help=expires)
    new_key = "it may join with another key than the one that is known here"
    parser.add_argument("--new-key", action="store_true", help=new_key)
    no_wait = "do not wait until it has joined"
    parser.add_argument("--no-wait", action="store_true", help=no_wait)
    add_contracts(parser)
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the code, wait, and write the partner's file."""
    from pipelines.operations.partner_invitation import (
        LIFETIME_DAYS_MAX,
        InviteRequest,
        invite_partner,
    )

    request = InviteRequest(
        partner=options.partner,
        contracts=options.contracts,
        participant=options.participant,
        lifetime_ms=parse_duration_us(options.expires, days_max=LIFETIME_DAYS_MAX) // 1_000,
        replaces_key=options.new_key,
        is_waiting=not options.no_wait,
    )
    joined = invite_partner(settings, request, _print)
    if joined is not None:
        print(f"{joined.partner} has joined; its file is {joined.file}", file=sys.stderr)
        if not joined.is_reached:
            print(
                f"{joined.partner} is not reached from here: it reads, and nothing is read there",
                file=sys.stderr,
            )
    return 0


def _print(made: InvitationMade) -> None:
    print(made.code, flush=True)
    open_for = duration(made.lifetime_ms * 1_000)
    print(
        f"send this code to the operator of {made.partner} in private: with it any participant "
        f"joins as {made.partner}. It is valid once, for {open_for}: medusa partner accept CODE",
        file=sys.stderr,
    )
