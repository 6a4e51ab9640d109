"""`medusa status`: the status of every home of the folder, once or again and again.

A home that cannot be reached is shown with the reason; with --watch it is shown again when it is
back.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

from pipelines.base import clock
from pipelines.base.settings import Settings
from pipelines.base.text_table import printable
from pipelines.cli.arguments import add_home, add_json, seconds
from pipelines.cli.status_text import platform_text, status_text

if TYPE_CHECKING:
    from pipelines.operations.folder_status import FolderStatus, HomeReport

HELP = "show leases, streams, and what would be done next and why"
CLEARED = "\x1b[H\x1b[2J"
LINE = f"\n\n{'=' * 100}\n\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa status`."""
    every = "again and again, every so many seconds (default: 2)"
    parser.add_argument(
        "--watch", nargs="?", type=seconds, const=2.0, metavar="SECONDS", help=every
    )
    add_home(parser, "whose home (default: all in MEDUSA_DIR)")
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the status; returns the exit code of the first home that cannot be read."""
    from pipelines.operations.folder_status import read_status, watch_status

    if options.watch is not None:
        with closing(watch_status(settings, options.participant)) as reports:
            for status in reports:
                _print(status, as_json=options.json, again=True)
                clock.sleep_s(options.watch)
    status = read_status(settings, options.participant)
    if status.error is not None and len(status.homes) == 1:
        raise status.error
    _print(status, as_json=options.json, again=False)
    return 0 if status.error is None else status.error.exit_code


def _print(status: FolderStatus, *, as_json: bool, again: bool) -> None:
    if as_json:
        indent = None if again else 1
        print(json.dumps(document(status), indent=indent, allow_nan=False), flush=True)
        return
    cleared = CLEARED if again and sys.stdout.isatty() else ""
    print(cleared + render(status), end="\n\n" if again else "\n", flush=True)


def document(status: FolderStatus) -> Mapping[str, Any]:
    """The status for JSON."""
    homes = [
        one.status or {"participant": one.participant, "error": str(one.error)}
        for one in status.homes
    ]
    return {"homes": homes, **({"platform": status.platform} if status.platform else {})}


def render(status: FolderStatus) -> str:
    """The status for a terminal."""
    texts = [platform_text(status.platform, clock.wall_s())] if status.platform else []
    return LINE.join([*texts, *map(_home, status.homes)])


def _home(home: HomeReport) -> str:
    if home.status is None:
        return f"home of {home.participant}: {printable(str(home.error))}"
    return status_text(home.status)
