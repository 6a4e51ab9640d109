"""`medusa tick`: one tick of a participant's loop."""

from __future__ import annotations

import argparse

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_json, add_running

HELP = "one turn of a participant: land, import, decide, apply"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa tick`."""
    add_running(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run one tick, or with --explain print what it would decide."""
    from pipelines.cli.run import explain_tick, run_order, tick

    order = run_order(options)
    if options.explain:
        return explain_tick(settings, order)
    return tick(settings, order, as_json=options.json)
