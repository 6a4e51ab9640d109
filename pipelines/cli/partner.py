"""`medusa partner …`: who may call the exchange of a home, on this machine or elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

from pipelines.base.settings import Settings
from pipelines.cli import (
    partner_accept,
    partner_export,
    partner_invite,
    partner_list,
    partner_remove,
    partner_rotate,
)
from pipelines.cli.usage import Command, add_commands

HELP = "partners: invite and accept them, list and remove them, rotate the own keys"

COMMANDS: Mapping[str, Command] = {
    "invite": partner_invite,
    "accept": partner_accept,
    "list": partner_list,
    "export": partner_export,
    "remove": partner_remove,
    "rotate": partner_rotate,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the commands behind `medusa partner`."""
    add_commands(parser, COMMANDS, dest="partner_command")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run one of the commands."""
    return COMMANDS[options.partner_command].run(options, settings)
