"""`medusa cursor`: the cursors of a home: list them, move one, drop one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_hold, add_home, add_json

if TYPE_CHECKING:
    from medusa_core.cursors import Cursor
    from pipelines.operations.home_cursors import CursorDrop, CursorList, CursorMove

HELP = "the cursors of consumers: list, move, drop"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa cursor`."""
    parser.add_argument("what", choices=("list", "move", "drop"))
    parser.add_argument("stream", metavar="STREAM", nargs="?")
    parser.add_argument("name", metavar="NAME", nargs="?")
    applied = "the version up to which changes are applied, or the position of that answer"
    parser.add_argument("--to", metavar="V", help=applied)
    add_hold(parser)
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Move or drop a cursor if an option says so, and print the cursors."""
    from pipelines.operations.home_cursors import change_cursors

    change = _change(options)
    result = change_cursors(settings, options.participant, change, options.stream)
    if options.json:
        print(json.dumps(document(result), indent=1, allow_nan=False))
    else:
        print(render(result))
    return 0


def _change(options: argparse.Namespace) -> CursorMove | CursorDrop | None:
    from pipelines.changes.consumer_cursors import hold_ms_of
    from pipelines.operations.home_cursors import CursorDrop, CursorMove

    hold_ms = hold_ms_of(options.hold)
    what, stream, cursor, to = options.what, options.stream, options.name, options.to
    if what != "list" and (stream is None or cursor is None):
        raise Refused(f"name the cursor: medusa cursor {what} STREAM NAME")
    if (what == "move") != (to is not None):
        raise Refused("say up to which version changes are applied: cursor move STREAM NAME --to V")
    if what == "move":
        return CursorMove(stream=stream, cursor=cursor, to=to, hold_ms=hold_ms)
    return CursorDrop(stream=stream, cursor=cursor) if what == "drop" else None


def document(result: CursorList) -> Mapping[str, Any]:
    """The result for JSON."""
    return {"participant": result.participant, "cursors": list(map(_document, result.cursors))}


def render(result: CursorList) -> str:
    """The result for a terminal."""
    if not result.cursors:
        of_stream = f" of {result.stream}" if result.stream else ""
        return f"{result.participant} has no cursors{of_stream}"
    names = ("stream", "cursor", "version", "newest", "from", "moved", "state")
    return table(names, map(_row, result.cursors))


def _row(cursor: Cursor) -> tuple[object, ...]:
    moved_ms = cursor.moved_at_ms
    return (
        cursor.stream,
        cursor.name,
        str(cursor.version),
        str(cursor.last_version),
        "origin" if cursor.from_us == BEGINNING_US else iso(cursor.from_us),
        "never" if moved_ms is None else iso(moved_ms * 1_000),
        "of another past: drop it" if cursor.is_diverged else "valid",
    )


def _document(cursor: Cursor) -> Mapping[str, Any]:
    return {
        "stream": cursor.stream,
        "cursor": cursor.name,
        "producer": str(cursor.producer),
        "version": cursor.version,
        "newest_version": cursor.last_version,
        "from_us": None if cursor.from_us == BEGINNING_US else cursor.from_us,
        "placed_at_ms": cursor.placed_at_ms,
        "moved_at_ms": cursor.moved_at_ms,
        "is_diverged": cursor.is_diverged,
    }
