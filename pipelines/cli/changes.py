"""`medusa changes`: what changed of a stream between two versions, for people and for programs.

Rows are printed as they are read, so that an answer of any length needs little memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli.arguments import add_hold, add_home, add_json, event_times, positive

if TYPE_CHECKING:
    from pipelines.changes.changed_rows import RowChange
    from pipelines.operations.stream_changes import ChangesRequest, StreamChanges

HELP = "what changed of a stream since a version, row by row"
ROWS_PER_TABLE = 1_000
MARKS = ("_change_type", "_stability", "_stream_version", "_revision", "_bucket")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa changes`."""
    parser.add_argument("stream", metavar="STREAM")
    since = "after which version (0: all), or the position that an answer named"
    parser.add_argument("--since", metavar="V", help=since)
    parser.add_argument("--until", metavar="V", help="up to which version (default: the newest)")
    cursor = "after the version that this cursor was moved to; a new one is placed"
    parser.add_argument("--cursor", metavar="NAME", help=cursor)
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
    from pipelines.operations.stream_changes import open_changes

    request = _request(options)
    with open_changes(settings, request) as changes:
        if options.json:
            _print_json(request, changes)
        else:
            _print_text(request, changes)
    return 0


def _request(options: argparse.Namespace) -> ChangesRequest:
    from pipelines.changes.consumer_cursors import hold_ms_of
    from pipelines.operations.stream_changes import ChangesRequest

    is_of_cursor = options.cursor is not None
    if is_of_cursor and (options.until is not None or options.to is not None):
        raise Refused("a cursor reads all changes behind it: leave --until and --to out")
    request = ChangesRequest(
        participant=options.participant,
        stream=options.stream,
        since=options.since,
        until=options.until,
        part=event_times(None if is_of_cursor else options.from_, options.to),
        cursor=options.cursor,
        begins=options.from_ if is_of_cursor else None,
        hold_ms=hold_ms_of(options.hold),
        limit=options.limit,
    )
    request.check()
    return request


def _print_json(request: ChangesRequest, changes: StreamChanges) -> None:
    from pipelines.storage.stable_rows import EVENT_TIME

    answer = changes.answer
    through_us = answer.until.stable_us
    head = {
        "participant": changes.participant,
        "stream": answer.line.stream.name,
        "producer": str(answer.line.producer),
        **({} if request.cursor is None else {"cursor": request.cursor}),
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
    for document in documents(changes):
        print(before + json.dumps(document, allow_nan=False), end="")
        before = ",\n  "
    print("\n ]\n}")


def documents(changes: StreamChanges) -> Iterator[Mapping[str, Any]]:
    """Each change as JSON values: the marks, then event time and columns (none of a promotion)."""
    from pipelines.storage.stable_rows import EVENT_TIME, json_value

    names = (EVENT_TIME, *(c.name for c in changes.answer.columns))
    for row in changes.rows():
        values: dict[str, Any] = {}
        if row.values is not None and row.stime_us is not None:
            words = (iso(row.stime_us), *map(json_value, row.values))
            values = dict(zip(names, words, strict=True))
        yield dict(zip(MARKS, _marks(row, changes), strict=True)) | values


def _marks(row: RowChange, changes: StreamChanges) -> tuple[str, str, int, int | None, int]:
    revision = changes.revisions.get(row.version)
    return (row.type.value, row.stability.value, row.version, revision, row.bucket_us)


def _print_text(request: ChangesRequest, changes: StreamChanges) -> None:
    from pipelines.storage.stable_rows import EVENT_TIME

    answer = changes.answer
    names = ("change", "stability", "version", "revision", "bucket", EVENT_TIME)
    heading = (*names, *(c.name for c in answer.columns))
    count = 0
    rows = changes.rows()
    while block := list(itertools.islice(rows, ROWS_PER_TABLE)):
        count += len(block)
        print(table(heading, (_cells(row, changes) for row in block)), end="\n\n")
    stream, version = answer.line.stream.name, answer.until.version
    more = f"; there is more behind version {version}" if answer.has_more else ""
    print(f"{count:,} changes of {stream} from version {answer.since.version} to {version}{more}")
    if request.cursor is not None and version > answer.since.version:
        print(f"applied: medusa cursor move {stream} {request.cursor} --to {version}")


def _cells(row: RowChange, changes: StreamChanges) -> tuple[object, ...]:
    from pipelines.storage.stable_rows import plain

    type_, stability, version, revision, bucket_us = _marks(row, changes)
    marks = (type_, stability, str(version), str(revision or ""), iso(bucket_us))
    if row.values is None or row.stime_us is None:
        return (*marks, *[None] * (len(changes.answer.columns) + 1))
    return (*marks, iso(row.stime_us), *map(plain, row.values))
