"""`medusa recipient …`: readers of a home's streams through Delta Sharing, without Medusa."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pipelines.base.settings import Settings
from pipelines.cli import (
    recipient_grant,
    recipient_issue,
    recipient_list,
    recipient_revoke,
    recipient_withdraw,
)
from pipelines.cli.usage import Command, add_commands

HELP = "recipients of Delta Sharing: issue and revoke their tokens, grant and withdraw streams"

COMMANDS: Mapping[str, Command] = {
    "issue": recipient_issue,
    "list": recipient_list,
    "revoke": recipient_revoke,
    "grant": recipient_grant,
    "withdraw": recipient_withdraw,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands behind `medusa recipient`."""
    add_commands(parser, COMMANDS, dest="recipient_command")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run one of the commands."""
    return COMMANDS[options.recipient_command].run(options, settings)
