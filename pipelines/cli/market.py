"""`medusa market …`: the market over the homes of a folder."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pipelines.base.settings import Settings
from pipelines.cli import market_check
from pipelines.cli.usage import Command, add_commands

HELP = "the market over the homes of a folder: check the allocation of load"

COMMANDS: Mapping[str, Command] = {"check": market_check}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands behind `medusa market`."""
    add_commands(parser, COMMANDS, dest="market_command")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run one of the commands."""
    return COMMANDS[options.market_command].run(options, settings)
