"""`medusa partner rotate`: replace the own keys without a pause."""

from __future__ import annotations

import argparse
import sys

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home

HELP = "replace the participant's key and that of its server's certificate, without a pause"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa partner rotate`."""
    add_home(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Rotate the keys; a line for each partner that was not reached."""
    from pipelines.operations.partner_management import rotate_keys

    rotated = rotate_keys(settings, options.participant)
    known = f"known to {', '.join(rotated.informed)}" if rotated.informed else "known to nobody yet"
    print(f"the key of {rotated.participant} is {rotated.public_key.hex()}, {known}")
    for partner, problem in rotated.uninformed.items():
        print(f"{partner} learns of it later: {problem}", file=sys.stderr)
    return 0
