"""`medusa branch diff`: how the outputs of a branch differ from the streams of the home."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_json

if TYPE_CHECKING:
    from pipelines.operations.branch_diff import StreamDiff

HELP = "how the outputs of a branch differ from the streams of that name"
HEADING = ("stream", "version", "from", "to", "rows", "in branch", "only here", "only branch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa branch diff`."""
    parser.add_argument("label", metavar="LABEL")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print a line for each output; 0 also if they differ."""
    from dataclasses import asdict

    from pipelines.operations.branches import diff_branch

    found = diff_branch(settings, options.label)
    if options.json:
        print(json.dumps({"streams": [asdict(one) for one in found]}, indent=1))
    else:
        print(render(found))
    return 0


def render(found: tuple[StreamDiff, ...]) -> str:
    """The counts, then the first difference of each stream that has one."""
    rows = [
        (
            one.stream, one.version, iso(one.range.from_us), iso(one.range.to_us), one.rows,
            one.branch_rows, one.only_original, one.only_branch,
        )
        for one in found
    ]  # fmt: skip
    firsts = [f"{one.stream} differs first {one.first}" for one in found if one.first is not None]
    return "\n".join((table(HEADING, rows), "", *(firsts or ["no difference"])))
