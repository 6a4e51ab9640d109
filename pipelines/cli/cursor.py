"""`medusa cursor`: the cursors of a home: list them, move one, drop one."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.cursors import Cursor
from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_hold, add_home, add_json

if TYPE_CHECKING:
    from pipelines.homes.home import Home


def run_cursor(
    settings: Settings,
    participant: str | None,
    what: str,
    stream: str | None,
    name: str | None,
    *,
    to: str | None,
    hold_ms: int,
    as_json: bool,
) -> int:
    """List cursors (of one stream, if named), or move or drop one."""
    from pipelines.changes.consumer_cursors import known_cursor
    from pipelines.changes.line_versions import line_of
    from pipelines.homes.home import chosen_participant, open_home

    if what != "list" and (stream is None or name is None):
        raise Refused(f"name the cursor: medusa cursor {what} STREAM NAME")
    if (what == "move") != (to is not None):
        raise Refused("say up to which version changes are applied: cursor move STREAM NAME --to V")
    with open_home(settings, chosen_participant(settings, participant)) as home:
        if what == "move" and stream is not None and name is not None and to is not None:
            _move(home, stream, name, to, hold_ms)
        if what == "drop" and stream is not None and name is not None:
            cursor = known_cursor(home.catalog, line_of(home.catalog, stream).stream.name, name)
            home.catalog.drop_cursor(cursor.stream, cursor.name)
        _show(home, stream, as_json=as_json)
    return 0


def _move(home: Home, stream: str, name: str, to: str, hold_ms: int) -> None:
    from pipelines.changes.consumer_cursors import known_cursor
    from pipelines.changes.line_versions import check_position, line_of, parse_position

    line = line_of(home.catalog, stream)
    known_cursor(home.catalog, line.stream.name, name)
    position = parse_position("--to", to)
    if position.chain is not None:
        check_position(home.catalog, line, position)
    home.catalog.move_cursor(line.stream.name, name, position.version, hold_ms)


def _show(home: Home, stream: str | None, *, as_json: bool) -> None:
    found = [c for c in home.catalog.cursors() if stream in (None, c.stream)]
    if as_json:
        document = {"participant": home.participant, "cursors": list(map(_document, found))}
        print(json.dumps(document, indent=1, allow_nan=False))
        return
    if not found:
        print(f"{home.participant} has no cursors" + (f" of {stream}" if stream else ""))
        return
    names = ("stream", "cursor", "version", "newest", "from", "moved", "stands")
    print(table(names, map(_row, found)))


def _row(cursor: Cursor) -> tuple[object, ...]:
    moved_ms = cursor.moved_at_ms
    return (
        cursor.stream,
        cursor.name,
        str(cursor.version),
        str(cursor.last_version),
        "origin" if cursor.from_us == BEGINNING_US else iso(cursor.from_us),
        "never" if moved_ms is None else iso(moved_ms * 1_000),
        "in another past: drop it" if cursor.is_diverged else "well",
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
    """List, move or drop cursors."""
    from pipelines.changes.consumer_cursors import hold_ms_of

    return run_cursor(
        settings,
        options.participant,
        options.what,
        options.stream,
        options.name,
        to=options.to,
        hold_ms=hold_ms_of(options.hold),
        as_json=options.json,
    )
