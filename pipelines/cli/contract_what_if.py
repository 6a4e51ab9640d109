"""`medusa contract what-if`: what an edit of a contract would have meant, by recorded load.

Nothing is written, nothing is sent: the home is only read.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from medusa_core.errors import Refused
from medusa_core.grid import parse_duration_us
from pipelines.base.settings import Settings
from pipelines.base.text_table import printable
from pipelines.cli.arguments import add_home, add_json

EDITS_MAX = 100


def what_if(
    settings: Settings,
    participant: str | None,
    edits: Sequence[str],
    files: Sequence[Path],
    *,
    over: str,
    as_json: bool,
) -> int:
    """Print what the edits, and the contracts of the files, would have changed over a span."""
    from pipelines.cli.what_if_text import document_of, lines_of
    from pipelines.homes.home import chosen_participant
    from pipelines.market.contracts.bilateral import read_bilateral_file
    from pipelines.market.what_if.analysis import ask_what_if
    from pipelines.market.what_if.edits import parse_edit
    from pipelines.participant.home_session import take_seat

    if not (edits or files):
        raise Refused(
            'say what would be changed: --edit "contract NAME SET price_high = 1.30", or --file'
        )
    if len(edits) + len(files) > EDITS_MAX:
        raise Refused(f"{len(edits) + len(files):,} edits: ask about {EDITS_MAX} at a time at most")
    over_ms = max(parse_duration_us(over) // 1_000, 1)
    parsed = [parse_edit(edit) for edit in edits]
    terms = [read_bilateral_file(path).terms for path in files]
    chosen = chosen_participant(settings, participant)
    with take_seat(settings, chosen) as seat:
        found = ask_what_if(seat.urls[0], chosen, parsed, terms, over_ms)
    if as_json:
        print(json.dumps(document_of(found), indent=1, allow_nan=False))
        return 0
    for part in lines_of(found):
        print("\n".join(printable(line) for line in part.splitlines()))
    return 0


HELP = "replay recorded load with a changed contract: moves, payments, overload"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa contract what-if`."""
    edit = "a change, as `contract NAME SET price_high = 1.30`, or as SQL says it; repeatable"
    parser.add_argument("--edit", action="append", default=[], metavar="EDIT", help=edit)
    file = "a contract's file, as if it were agreed on; repeatable"
    parser.add_argument("--file", action="append", default=[], type=Path, metavar="FILE", help=file)
    over = "how far back, such as 24h (the default), 7d at most"
    parser.add_argument("--over", default="24h", metavar="DURATION", help=over)
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Replay recorded load with changed contracts."""
    return what_if(
        settings,
        options.participant,
        options.edit,
        options.file,
        over=options.over,
        as_json=options.json,
    )
