"""`medusa contract …`: the commands about contracts between participants."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pipelines.base.settings import Settings
from pipelines.cli import (
    contract_check,
    contract_define,
    contract_definitions,
    contract_export,
    contract_login,
    contract_what_if,
    contract_withdraw,
)
from pipelines.cli.usage import Command, add_commands

HELP = "contracts between participants: check them, ask what-if, export what a stream promises"

COMMANDS: Mapping[str, Command] = {
    "check": contract_check,
    "export": contract_export,
    "what-if": contract_what_if,
    "login": contract_login,
    "define": contract_define,
    "definitions": contract_definitions,
    "withdraw": contract_withdraw,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands behind `medusa contract`."""
    add_commands(parser, COMMANDS, dest="contract_command")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run one of the commands."""
    return COMMANDS[options.contract_command].run(options, settings)
