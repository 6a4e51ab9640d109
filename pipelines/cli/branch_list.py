"""`medusa branch list`: the branches of a folder, and what each was made of."""

from __future__ import annotations

import argparse
import json

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_json

HELP = "the branches, and what each was made of"
HEADING = ("branch", "network", "source", "stream", "version", "from", "to")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa branch list`."""
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print them, a line for each stream that a branch reads."""
    from dataclasses import asdict

    from pipelines.operations.branches import list_branches

    found = list_branches(settings)
    if options.json:
        print(json.dumps({"branches": [asdict(one) for one in found]}, indent=1))
    elif not found:
        print("there are no branches: medusa branch make")
    else:
        rows = [
            (
                one.label, one.network, source, f"{one.participant}/{stream}", version,
                iso(from_us), iso(to_us),
            )
            for one in found
            for source, (stream, version, from_us, to_us) in one.streams.items()
        ]  # fmt: skip
        print(table(HEADING, rows))
    return 0
