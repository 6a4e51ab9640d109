"""`medusa tick`: one iteration of a participant's loop."""

from __future__ import annotations

import argparse
import json
import sys

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_json, add_running
from pipelines.cli.run import print_decisions, run_options

HELP = "one tick of a participant: land, import, decide, apply"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa tick`."""
    add_running(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run one iteration and print its figures; with --explain print what it would decide."""
    from pipelines.operations.participant_run import document, tick_participant

    if options.explain:
        print_decisions(settings, run_options(options))
        return 0
    result = tick_participant(settings, run_options(options))
    for of, because in result.alarms.items():
        print(f"medusa: warning: {of}: {because}", file=sys.stderr)
    figures = document(result)
    if options.json:
        print(json.dumps(figures))
    else:
        print(", ".join(f"{name} {number}" for name, number in figures.items()))
    return 0
