"""`medusa calibrate FRAGMENT`: what a record costs, for the reference of a movement contract."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict

from pipelines.base.settings import Settings
from pipelines.cli.arguments import add_home, add_json
from pipelines.cli.terminal_progress import Progress

HELP = "measure what a record costs a fragment, for the reference of a movement contract"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa calibrate`."""
    parser.add_argument("fragment", metavar="FRAGMENT", help="one that the participant computes")
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Run the fragment over its kept inputs, and print the reference."""
    from pipelines.operations.load_calibration import calibrate_fragment

    progress = Progress()
    found = calibrate_fragment(settings, options.participant, options.fragment, progress)
    progress.end()
    if options.json:
        fields = asdict(found) | {"cpu_us": found.cpu_us, "reference": found.reference}
        print(json.dumps(fields, indent=1))
    else:
        print(
            f"{found.fragment}: {found.cpu_us:g} us of CPU a record, over {found.records:,} records"
        )
        print(f"reference: [{', '.join(found.reference)}]")
    return 0
