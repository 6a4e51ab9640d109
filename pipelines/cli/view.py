"""`medusa view …`: named parts of streams that a home keeps for queries over its history."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pipelines.base.settings import Settings
from pipelines.cli import view_list, view_make, view_remove
from pipelines.cli.usage import Command, add_commands

HELP = "views: named parts of streams that are kept for queries over history"

COMMANDS: Mapping[str, Command] = {
    "make": view_make,
    "list": view_list,
    "remove": view_remove,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands behind `medusa view`."""
    add_commands(parser, COMMANDS, dest="view_command")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run one of the commands."""
    return COMMANDS[options.view_command].run(options, settings)
