"""`medusa recipient revoke`: end the tokens of a recipient now."""

from __future__ import annotations

import argparse

from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home, positive

HELP = "end the tokens of a recipient now, or one of them"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa recipient revoke`."""
    parser.add_argument("recipient", metavar="RECIPIENT")
    token = "the number of the token, as issue has printed it (default: all)"
    parser.add_argument("--token", metavar="NUMBER", type=_token_number, help=token)
    add_home(parser)


def _token_number(text: str) -> int:
    try:
        return positive(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not the number of a token: give the one that issue has printed, or leave "
            "--token out to revoke all"
        ) from None


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Revoke them."""
    from pipelines.operations.recipient_management import revoke_tokens

    name = options.recipient
    revoked = revoke_tokens(settings, options.participant, name, options.token)
    print(f"{counted(revoked, 'token')} of {name} revoked; its grants stay")
    return 0
