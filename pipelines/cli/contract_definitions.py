"""`medusa contract definitions`: the boxes that a home runs for buyers, and its own elsewhere."""

from __future__ import annotations

import argparse
import json

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.cli.arguments import add_home, add_json

HELP = "the boxes that run here for buyers, and those that were defined elsewhere"
HEADING = ("definition", "buyer", "contract", "state", "stream", "CPU s", "because")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract definitions`."""
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print a line for each definition."""
    from dataclasses import asdict

    from pipelines.operations.boxes_of_buyer import list_definitions

    found = list_definitions(settings, options.participant)
    if options.json:
        definitions = [asdict(one) for one in found.definitions]
        print(json.dumps({"participant": found.participant, "definitions": definitions}, indent=1))
    elif not found.definitions:
        print(f"{found.participant} knows no definitions: medusa contract define")
    else:
        rows = [
            (
                one.name, one.buyer, one.contract, one.state, one.stream,
                "" if one.cpu_s is None else f"{one.cpu_s:.3f}", one.reason or "",
            )
            for one in found.definitions
        ]  # fmt: skip
        print(table(HEADING, rows))
    return 0
