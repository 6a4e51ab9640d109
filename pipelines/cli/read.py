"""`medusa streams`, `read`: what a home holds, for people and, by --json, for programs.

Nothing here writes. Rows are those of the stable prefix, so the same question gives the same answer
for ever; tentative ones are shown on demand, with their marks, and so is any version of the past.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.names import Version
from medusa_core.segments import Segment
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import counted, duration, iso, parse_time_us
from pipelines.cli.arguments import add_home, add_json, positive

if TYPE_CHECKING:
    from pipelines.catalog.records import LineStatus

if TYPE_CHECKING:
    from pipelines.changes.marked_rows import MarkedRows
    from pipelines.homes.home import Home
    from pipelines.report.figures import StreamFigures

STABILITY, MISSING = "_stability", "_missing"


def show_streams(settings: Settings, participant: str | None, *, as_json: bool) -> int:
    """Print every stream of a home and how far it has come."""
    from pipelines.cli.status_text import disputed_lines
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.report.figures import stream_figures

    with open_home(settings, chosen_participant(settings, participant)) as home:
        streams = [stream_figures(home, status) for status in home.catalog.streams()]
        disputed = home.catalog.disputed()
        told = [_stream(stream, disputed.get(stream.name)) for stream in streams]
        if as_json:
            _print({"participant": home.participant, "streams": told})
            return 0
        rows = [
            (s.name, s.status.stream.kind, duration(s.status.stream.width_us), s.status.version,
             _told(s.stable_through_us), _shown(s.status.tentative_through_us),
             _shown(s.status.corrected_through_us), s.status.rows, len(s.buckets),
             len(s.segments), _yes(s.has_ended))
            for s in streams
        ]  # fmt: skip
        names = ("stream", "kind", "width", "version", "stable through", "tentative through",
                 "corrected through", "rows", "non-empty buckets", "segments",
                 "ended")  # fmt: skip
        print(table(names, rows) if rows else f"{home.participant} has no streams yet")
        for line in disputed_lines(told):
            print(line)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What of a stream is to be shown: event times, a version of the past, tentative rows too."""

    from_: str | None = None
    to: str | None = None
    as_of: str | None = None
    with_tentative: bool = False
    limit: int = 20


def show_rows(
    settings: Settings, participant: str | None, stream: str, asked: Asked, *, as_json: bool
) -> int:
    """Print rows of a stream, in event-time order: of its stable prefix unless more is asked."""
    from pipelines.changes.line_versions import line_of, version_of
    from pipelines.homes.home import chosen_participant, open_home
    from pipelines.storage.stable_rows import EVENT_TIME, stable_through_us

    part = _part(asked)
    with open_home(settings, chosen_participant(settings, participant)) as home:
        line = line_of(home.catalog, stream)
        version = line.version
        if asked.as_of is not None:
            version = version_of(home.catalog, line, "--as-of", asked.as_of)
        segments = _segments(home, line, None if asked.as_of is None else version)
        through_us = stable_through_us(segments, line.kept_from_us) if version else None
        rows = _rows(home, line, segments, through_us, part, asked)
    if as_json:
        _print(
            {
                "participant": home.participant,
                "stream": line.stream.name,
                "version": version,
                "stable_through": None if through_us is None else iso(through_us),
                "trimmed_before": None if line.trimmed_us is None else iso(line.trimmed_us),
                "has_ended": line.end_us is not None
                and through_us is not None
                and through_us >= line.end_us,
                "columns": {EVENT_TIME: "timestamp", **line.stream.columns},
                "rows": list(_documents(rows, asked)),
                "has_more": rows.rows.has_more,
            }
        )
        return 0
    print(_table_of(rows, asked))
    shown = counted(len(rows.rows.values), "row")
    more = "; more with --limit or --from" if rows.rows.has_more else ""
    gone = "" if line.trimmed_us is None else f", trimmed before {iso(line.trimmed_us)}"
    at = "" if asked.as_of is None else f" as of version {version}"
    print(f"\n{shown} of {stream}{at}, stable through {_told(through_us)}{gone}{more}")
    return 0


# ------------------------------------------------------------ streams and rows


def _part(asked: Asked) -> Range:
    from_us = BEGINNING_US if asked.from_ is None else parse_time_us("--from", asked.from_)
    to_us = FOREVER_US if asked.to is None else parse_time_us("--to", asked.to)
    if from_us >= to_us:
        raise Refused(f"--from {asked.from_} is not before --to {asked.to}: --to is exclusive")
    return Range(from_us, to_us)


def _segments(home: Home, line: LineStatus, as_of: Version | None) -> tuple[Segment, ...]:
    return home.catalog.segments(line.stream.name, producer=line.producer, as_of=as_of)


def _rows(
    home: Home,
    line: LineStatus,
    segments: Sequence[Segment],
    through_us: int | None,
    part: Range,
    asked: Asked,
) -> MarkedRows:
    """The rows in `part` of what is kept: to the end of the stable prefix, or all that there is."""
    from pipelines.changes.marked_rows import read_marked
    from pipelines.storage.segment_rows import columns_of

    upto_us = FOREVER_US if asked.with_tentative else through_us
    kept_us, seen = line.kept_from_us, None
    if kept_us is not None and upto_us is not None and kept_us < upto_us:
        seen = Range(kept_us, upto_us).intersection(part)
    columns = columns_of(line.stream)
    return read_marked(home.storage, segments, columns, seen, asked.limit)


def _documents(rows: MarkedRows, asked: Asked) -> Iterator[Mapping[str, Any]]:
    from pipelines.storage.stable_rows import documents

    for document, (stability, missing) in zip(documents(rows.rows), rows.marks, strict=True):
        marks = {STABILITY: stability.value, MISSING: list(missing)}
        yield {**document, **(marks if asked.with_tentative else {})}


def _table_of(rows: MarkedRows, asked: Asked) -> str:
    from pipelines.storage.stable_rows import EVENT_TIME, plain

    marks = (STABILITY, MISSING) if asked.with_tentative else ()
    names = (*marks, EVENT_TIME, *(c.name for c in rows.rows.columns))
    # As they are: digits of a number that is a name or a time are not set apart by commas.
    body = []
    found = zip(rows.rows.stimes_us, rows.rows.values, rows.marks, strict=True)
    for at, values, (stability, missing) in found:
        marked = (stability.value, ", ".join(missing)) if asked.with_tentative else ()
        body.append((*marked, iso(at), *map(plain, values)))
    return table(names, body)


def _told(through_us: int | None) -> str:
    return "not begun" if through_us is None else iso(through_us)


def _shown(through_us: int | None) -> str:
    return "" if through_us is None else iso(through_us)


def _stream(stream: StreamFigures, disputed_us: int | None) -> Mapping[str, Any]:
    status = stream.status
    through_us = stream.stable_through_us
    tentative_us, corrected_us = status.tentative_through_us, status.corrected_through_us
    return {
        "stream": status.stream.name,
        "kind": status.stream.kind,
        "producer": str(status.producer),
        "width_us": status.stream.width_us,
        "version": status.version,
        "stable_through": None if through_us is None else iso(through_us),
        "stable_through_us": through_us,
        "tentative_through": None if tentative_us is None else iso(tentative_us),
        "tentative_through_us": tentative_us,
        "corrected_through": None if corrected_us is None else iso(corrected_us),
        "corrected_through_us": corrected_us,
        "disputed_from": None if disputed_us is None else iso(disputed_us),
        "disputed_from_us": disputed_us,
        "rows": status.rows,
        "buckets": len(stream.buckets),
        "segments": len(stream.segments),
        "has_ended": stream.has_ended,
        "digest": str(stream.digest),
        "columns": dict(status.stream.columns),
    }


def _yes(is_so: bool) -> str:
    return "yes" if is_so else "no"


def _print(document: Mapping[str, Any]) -> None:
    print(json.dumps(document, indent=1, allow_nan=False))


HELP = "rows of a stream, final ones, in event-time order"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa read`."""
    parser.add_argument("stream", metavar="STREAM", nargs="?")
    parser.add_argument("--from", dest="from_", metavar="TIME", help="ISO 8601 or Unix seconds")
    parser.add_argument("--to", metavar="TIME", help="event time, exclusive")
    past = "a version, or an ISO 8601 time by the home's clock: what was there then"
    parser.add_argument("--as-of", metavar="V|TIME", help=past)
    marks = "all: tentative rows too, with their marks (default: stable)"
    parser.add_argument("--stability", choices=("stable", "all"), default="stable", help=marks)
    parser.add_argument("--limit", type=positive, default=20, metavar="N")
    parser.add_argument("--quarantine", action="store_true", help="the records put aside, instead")
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print rows of a stream, or records in quarantine."""
    if options.quarantine:
        from pipelines.cli.quarantine import show_quarantine

        return show_quarantine(
            settings,
            options.participant,
            options.stream,
            limit=options.limit,
            as_json=options.json,
        )
    if options.stream is None:
        raise Refused("name the stream to read, or give --quarantine")
    return show_rows(
        settings,
        options.participant,
        options.stream,
        Asked(
            from_=options.from_,
            to=options.to,
            as_of=options.as_of,
            with_tentative=options.stability == "all",
            limit=options.limit,
        ),
        as_json=options.json,
    )
