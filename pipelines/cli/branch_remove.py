"""`medusa branch remove`: remove a branch with all that was kept of it."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings

HELP = "remove a branch with all that was kept of it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa branch remove`."""
    parser.add_argument("label", metavar="LABEL")


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Remove it; the home that it was made of is not changed."""
    from pipelines.operations.branches import remove_branch

    remove_branch(settings, options.label)
    print(f"removed branch {options.label}")
    return 0
