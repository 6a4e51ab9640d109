"""`medusa read`: rows of a stream, for people and, with --json, for programs.

Nothing is written. By default the rows are those of the stable prefix, so the same question gives
the same answer; options show tentative rows, with their marks, and any version of the past.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import iso
from pipelines.cli import quarantine
from pipelines.cli.arguments import add_home, add_json, event_times, positive

if TYPE_CHECKING:
    from pipelines.operations.stream_reading import ReadRequest, ReadResult

HELP = "rows of a stream, final ones, in event-time order"
STABILITY, MISSING = "_stability", "_missing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa read`."""
    parser.add_argument("stream", metavar="STREAM", nargs="?")
    parser.add_argument("--from", dest="from_", metavar="TIME", help="ISO 8601 or Unix seconds")
    parser.add_argument("--to", metavar="TIME", help="event time, exclusive")
    past = "rows at a version, or at an ISO 8601 time by the home's clock"
    parser.add_argument("--as-of", metavar="V|TIME", help=past)
    marks = "all: tentative rows too, with their marks (default: stable)"
    parser.add_argument("--stability", choices=("stable", "all"), default="stable", help=marks)
    parser.add_argument("--limit", type=positive, default=20, metavar="N")
    records = "read the records in quarantine instead (with STREAM: those that it lacks)"
    parser.add_argument("--quarantine", action="store_true", help=records)
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print rows of a stream, or records in quarantine."""
    if options.quarantine:
        return quarantine.run_read(options, settings)
    from pipelines.operations.stream_reading import read_stream

    request = _request(options)
    result = read_stream(settings, request)
    if options.json:
        print(json.dumps(document(request, result), indent=1, allow_nan=False))
    else:
        print(render(request, result))
    return 0


def _request(options: argparse.Namespace) -> ReadRequest:
    from pipelines.operations.stream_reading import ReadRequest

    if options.stream is None:
        raise Refused("name the stream to read, or give --quarantine")
    return ReadRequest(
        participant=options.participant,
        stream=options.stream,
        part=event_times(options.from_, options.to),
        as_of=options.as_of,
        with_tentative=options.stability == "all",
        limit=options.limit,
    )


def document(request: ReadRequest, result: ReadResult) -> Mapping[str, Any]:
    """The result for JSON."""
    from pipelines.storage.stable_rows import EVENT_TIME

    line, through_us = result.line, result.stable_through_us
    return {
        "participant": result.participant,
        "stream": line.stream.name,
        "version": result.version,
        "stable_through": None if through_us is None else iso(through_us),
        "trimmed_before": None if line.trimmed_us is None else iso(line.trimmed_us),
        "has_ended": result.has_ended,
        "columns": {EVENT_TIME: "timestamp", **line.stream.columns},
        "rows": list(_row_documents(request, result)),
        "has_more": result.rows.rows.has_more,
    }


def render(request: ReadRequest, result: ReadResult) -> str:
    """The result for a terminal."""
    line, through_us = result.line, result.stable_through_us
    rows = counted(len(result.rows.rows.values), "row")
    through = "not begun" if through_us is None else iso(through_us)
    more = "; more with --limit or --from" if result.rows.rows.has_more else ""
    trimmed = "" if line.trimmed_us is None else f", trimmed before {iso(line.trimmed_us)}"
    at = "" if request.as_of is None else f" as of version {result.version}"
    head = f"{rows} of {request.stream}{at}, stable through {through}{trimmed}{more}"
    return f"{_table(request, result)}\n\n{head}"


def _row_documents(request: ReadRequest, result: ReadResult) -> Iterator[Mapping[str, Any]]:
    from pipelines.storage.stable_rows import documents

    found = zip(documents(result.rows.rows), result.rows.marks, strict=True)
    for values, (stability, missing) in found:
        marks = {STABILITY: stability.value, MISSING: list(missing)}
        yield {**values, **(marks if request.with_tentative else {})}


def _table(request: ReadRequest, result: ReadResult) -> str:
    from pipelines.storage.stable_rows import EVENT_TIME, plain

    rows = result.rows.rows
    marks = (STABILITY, MISSING) if request.with_tentative else ()
    # Digits are not grouped by commas: a number may be a name or a time.
    body = []
    for at, values, (stability, missing) in zip(
        rows.stimes_us, rows.values, result.rows.marks, strict=True
    ):
        marked = (stability.value, ", ".join(missing)) if request.with_tentative else ()
        body.append((*marked, iso(at), *map(plain, values)))
    return table((*marks, EVENT_TIME, *(c.name for c in rows.columns)), body)
