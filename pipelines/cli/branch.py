"""`medusa branch …`: what a network would have said over kept history, kept under a label."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pipelines.base.settings import Settings
from pipelines.cli import branch_diff, branch_list, branch_make, branch_remove
from pipelines.cli.usage import Command, add_commands

HELP = "branches: replays over kept streams that stay under a label, and how they differ"

COMMANDS: Mapping[str, Command] = {
    "make": branch_make,
    "list": branch_list,
    "diff": branch_diff,
    "remove": branch_remove,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands behind `medusa branch`."""
    add_commands(parser, COMMANDS, dest="branch_command")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run one of the commands."""
    return COMMANDS[options.branch_command].run(options, settings)
