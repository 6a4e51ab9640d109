"""`medusa contract what-if`: what an edit of a contract would have changed, by recorded load."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from medusa_core.grid import parse_duration_us
from pipelines.base.settings import Settings
from pipelines.base.text_table import printable
from pipelines.cli.arguments import add_home, add_json

HELP = "estimate moves, payments, overload or bills under a changed contract"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract what-if`."""
    edit = "a change, as `contract NAME SET price_high = 1.30`, or as SQL says it; repeatable"
    parser.add_argument("--edit", action="append", default=[], metavar="EDIT", help=edit)
    file = "a contract's file, as if it were agreed; repeatable"
    parser.add_argument("--file", action="append", default=[], type=Path, metavar="FILE", help=file)
    over = "how far back, such as 24h (the default), 7d at most"
    parser.add_argument("--over", default="24h", metavar="DURATION", help=over)
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print what the edits, and the contracts of the files, would have changed."""
    from pipelines.cli.what_if_text import document_of, lines_of
    from pipelines.operations.contract_what_if import WhatIfRequest, what_if

    request = WhatIfRequest(
        participant=options.participant,
        edits=tuple(options.edit),
        files=tuple(options.file),
        over_ms=max(parse_duration_us(options.over) // 1_000, 1),
    )
    result = what_if(settings, request)
    if options.json:
        print(json.dumps(document_of(result), indent=1, allow_nan=False))
        return 0
    for part in lines_of(result):
        print("\n".join(printable(line) for line in part.splitlines()))
    return 0
