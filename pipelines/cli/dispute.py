"""`medusa dispute …`: disputes about statements."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pipelines.base.settings import Settings
from pipelines.cli import dispute_concede, dispute_list, dispute_withdraw
from pipelines.cli.usage import Command, add_commands

HELP = "disputes about statements: list them, end one with the partner's figures"

COMMANDS: Mapping[str, Command] = {
    "list": dispute_list,
    "withdraw": dispute_withdraw,
    "concede": dispute_concede,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands behind `medusa dispute`."""
    add_commands(parser, COMMANDS, dest="dispute_command")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run one of the commands."""
    return COMMANDS[options.dispute_command].run(options, settings)
