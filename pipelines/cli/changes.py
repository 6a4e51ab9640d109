"""`medusa changes`: what changed of a stream between two versions, for people and for programs.

The only thing that is ever written is a new cursor. Rows are printed as they are read, so that an
answer of any length needs little memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.names import Version
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso, parse_time_us
from pipelines.cli.arguments import add_hold, add_home, add_json, positive

if TYPE_CHECKING:
    from pipelines.changes.change_answers import Answer
    from pipelines.changes.changed_rows import RowChange
    from pipelines.homes.home import Home

ROWS_PER_TABLE = 1_000
MARKS = ("_change_type", "_stability", "_stream_version", "_bucket")


def show_changes(
    settings: Settings,
    participant: str | None,
    stream: str,
    *,
    since: str | None,
    until: str | None,
    cursor: str | None,
    from_: str | None,
    to: str | None,
    limit: int,
    hold_ms: int,
    as_json: bool,
) -> int:
    """Print the changes behind a version or a cursor, in whole versions of about `limit` rows."""
    from pipelines.homes.home import chosen_participant, open_home

    if (since is None) == (cursor is None):
        raise Refused("say since when: --since VERSION (0: since the beginning) or --cursor NAME")
    if cursor is not None and (until is not None or to is not None):
        raise Refused("a cursor tells of all that follows: leave --until and --to out")
    with open_home(settings, chosen_participant(settings, participant)) as home:
        if cursor is not None:
            answer = _behind_cursor(home, stream, cursor, from_, limit, hold_ms)
        else:
            assert since is not None
            answer = _between(home, stream, since, until, _part(from_, to), limit)
        if as_json:
            _print_json(home, answer, cursor)
        else:
            _print_text(home, answer, cursor)
    return 0


def _behind_cursor(
    home: Home, stream: str, name: str, from_: str | None, limit: int, hold_ms: int
) -> Answer:
    from pipelines.changes.consumer_cursors import changes_behind, find_cursor, place_cursor
    from pipelines.changes.line_versions import line_of

    line = line_of(home.catalog, stream)
    cursor = find_cursor(home.catalog, line.stream.name, name)
    if cursor is None:
        cursor = place_cursor(home.catalog, line, name, from_, hold_ms)
    elif from_ is not None:
        raise Refused(
            f"cursor {name} of {stream} is there already, at version {cursor.version}: leave "
            f"--from out, or drop it with `medusa cursor drop {stream} {name}`"
        )
    return changes_behind(home.catalog, line, cursor, rows_max=limit)


def _between(
    home: Home, stream: str, since: str, until: str | None, part: Range, limit: int
) -> Answer:
    from pipelines.changes.change_answers import changes_of
    from pipelines.changes.line_versions import line_of, parse_position

    line = line_of(home.catalog, stream)
    upto: Version | None = None if until is None else parse_position("--until", until).version
    return changes_of(
        home.catalog, line, parse_position("--since", since), part, until=upto, rows_max=limit
    )


def _part(from_: str | None, to: str | None) -> Range:
    from_us = BEGINNING_US if from_ is None else parse_time_us("--from", from_)
    to_us = FOREVER_US if to is None else parse_time_us("--to", to)
    if from_us >= to_us:
        raise Refused(f"--from {from_} is not before --to {to}: --to is exclusive")
    return Range(from_us, to_us)


def _print_json(home: Home, answer: Answer, cursor: str | None) -> None:
    from pipelines.storage.stable_rows import EVENT_TIME

    through_us = answer.until.stable_us
    head = {
        "participant": home.participant,
        "stream": answer.line.stream.name,
        "producer": str(answer.line.producer),
        **({} if cursor is None else {"cursor": cursor}),
        "since": answer.since.version,
        "version": answer.until.version,
        "position": str(answer.position),
        "has_more": answer.has_more,
        "stable_through": None if through_us is None else iso(through_us),
        "columns": {EVENT_TIME: "timestamp", **answer.line.stream.columns},
        "key": list(answer.line.stream.key),
    }
    print(json.dumps(head, indent=1, allow_nan=False).removesuffix("\n}"), end=',\n "changes": [')
    before = "\n  "
    for document in documents(home, answer):
        print(before + json.dumps(document, allow_nan=False), end="")
        before = ",\n  "
    print("\n ]\n}")


def documents(home: Home, answer: Answer) -> Iterator[Mapping[str, Any]]:
    """Each change as JSON values: the marks, then event time and columns (none of a promotion)."""
    from pipelines.storage.stable_rows import EVENT_TIME, json_value

    names = (EVENT_TIME, *(c.name for c in answer.columns))
    for row in answer.rows(home.storage):
        values: dict[str, Any] = {}
        if row.values is not None and row.stime_us is not None:
            words = (iso(row.stime_us), *map(json_value, row.values))
            values = dict(zip(names, words, strict=True))
        yield dict(zip(MARKS, _marks(row), strict=True)) | values


def _marks(row: RowChange) -> tuple[str, str, int, int]:
    return (row.type.value, row.stability.value, row.version, row.bucket_us)


def _print_text(home: Home, answer: Answer, cursor: str | None) -> None:
    from pipelines.storage.stable_rows import EVENT_TIME

    names = ("change", "stability", "version", "bucket", EVENT_TIME)
    heading = (*names, *(c.name for c in answer.columns))
    changes = 0
    rows = answer.rows(home.storage)
    while block := list(itertools.islice(rows, ROWS_PER_TABLE)):
        changes += len(block)
        print(table(heading, (_cells(row, len(answer.columns)) for row in block)), end="\n\n")
    stream, version = answer.line.stream.name, answer.until.version
    more = f"; there is more behind version {version}" if answer.has_more else ""
    print(f"{changes:,} changes of {stream} from version {answer.since.version} to {version}{more}")
    if cursor is not None and version > answer.since.version:
        print(f"applied: medusa cursor move {stream} {cursor} --to {version}")


def _cells(row: RowChange, columns: int) -> tuple[object, ...]:
    from pipelines.storage.stable_rows import plain

    marks = (row.type.value, row.stability.value, str(row.version), iso(row.bucket_us))
    if row.values is None or row.stime_us is None:
        return (*marks, *[None] * (columns + 1))
    return (*marks, iso(row.stime_us), *map(plain, row.values))


HELP = "what changed of a stream since a version, row by row"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa changes`."""
    parser.add_argument("stream", metavar="STREAM")
    since = "after which version (0: all), or the position that an answer named"
    parser.add_argument("--since", metavar="V", help=since)
    parser.add_argument("--until", metavar="V", help="up to which version (default: the newest)")
    kept = "after what this cursor was moved to; a new one is placed"
    parser.add_argument("--cursor", metavar="NAME", help=kept)
    begins = "buckets from this event time on; of a new cursor origin (default), now or a time"
    parser.add_argument("--from", dest="from_", metavar="TIME", help=begins)
    parser.add_argument("--to", metavar="TIME", help="buckets before this event time")
    rows = "about so many rows, in whole versions (default: 10000)"
    parser.add_argument("--limit", type=positive, default=10_000, metavar="N", help=rows)
    add_hold(parser)
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print changes since a version or behind a cursor."""
    from pipelines.changes.consumer_cursors import hold_ms_of

    return show_changes(
        settings,
        options.participant,
        options.stream,
        since=options.since,
        until=options.until,
        cursor=options.cursor,
        from_=options.from_,
        to=options.to,
        limit=options.limit,
        hold_ms=hold_ms_of(options.hold),
        as_json=options.json,
    )
