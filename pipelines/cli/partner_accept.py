"""`medusa partner accept`: join the participant that has sent an invitation."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress

from medusa_core.errors import Refused
from medusa_core.protocol.invitations import CODE_LENGTH_MAX, read_code
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_contracts, add_home

HELP = "join the participant that has sent an invitation"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa partner accept`."""
    code = "the code that medusa partner invite has printed there; - reads it from standard input"
    parser.add_argument("code", metavar="CODE", help=code)
    new_key = "it may have another key than the one that is known here"
    parser.add_argument("--new-key", action="store_true", help=new_key)
    add_contracts(parser)
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Join, and write the partner's file."""
    from pipelines.operations.partner_invitation import AcceptRequest, accept_invitation

    request = AcceptRequest(
        code=_code(options.code),
        contracts=options.contracts,
        participant=options.participant,
        replaces_key=options.new_key,
    )
    joined = accept_invitation(settings, request)
    print(f"joined {joined.partner}; its file is {joined.file}")
    if not joined.is_reached:
        print(
            f"{joined.partner} does not reach this home, which reads there: to be read as well, "
            "set MEDUSA_EXCHANGE_NAME and start medusa run",
            file=sys.stderr,
        )
    return 0


def _code(given: str) -> str:
    """The code as it was given, or from standard input, which no list of processes shows.

    No more is read than the code, so that `medusa partner invite` may wait at the other end of a
    pipe until it has been used.
    """
    if given != "-":
        return given
    code = ""
    while len(code) < 2 * CODE_LENGTH_MAX and (line := sys.stdin.readline(CODE_LENGTH_MAX)):
        code += line
        with suppress(Refused):
            read_code(code)
            break
    if not code.strip():
        raise Refused("there is no code on standard input: give that of medusa partner invite")
    return code
