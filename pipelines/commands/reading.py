"""`medusa streams`, `read`: what a home holds, for people and, by --json, for programs.

Nothing here writes. Rows are those of the stable prefix, so the same question gives the same answer
for ever; what is not stable yet is not shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.nearest import did_you_mean
from pipelines.commands.tables import table
from pipelines.exporting import columns_of
from pipelines.home import Home, chosen_participant, open_home
from pipelines.report.figures import StreamFigures, stream_figures
from pipelines.report.stable_rows import EVENT_TIME, Rows, documents, plain, read_rows
from pipelines.report.times import counted, duration, iso, parse_time_us
from pipelines.settings import Settings


def show_streams(settings: Settings, participant: str | None, *, as_json: bool) -> int:
    """Print every stream of a home and how far it has come."""
    with open_home(settings, chosen_participant(settings, participant)) as home:
        streams = [stream_figures(home, status) for status in home.catalog.streams()]
        if as_json:
            _print({"participant": home.participant, "streams": list(map(_stream, streams))})
            return 0
        rows = [
            (s.name, s.status.stream.kind, duration(s.status.stream.width_us), s.status.version,
             _through(s), s.status.rows, len(s.buckets), len(s.segments), _yes(s.has_ended))
            for s in streams
        ]  # fmt: skip
        names = ("stream", "kind", "width", "version", "stable through", "rows",
                 "non-empty buckets", "segments", "ended")  # fmt: skip
        print(table(names, rows) if rows else f"{home.participant} has no streams yet")
    return 0


def show_rows(
    settings: Settings,
    participant: str | None,
    stream: str,
    *,
    from_: str | None,
    to: str | None,
    limit: int,
    as_json: bool,
) -> int:
    """Print rows of a stream's stable prefix, in event-time order."""
    asked = _asked(from_, to)
    with open_home(settings, chosen_participant(settings, participant)) as home:
        figures = _named(home, stream)
        rows = _rows(home, figures, asked, limit)
    through_us, trimmed_us = figures.stable_through_us, figures.status.trimmed_us
    if as_json:
        _print(
            {
                "participant": home.participant,
                "stream": figures.name,
                "version": figures.status.version,
                "stable_through": None if through_us is None else iso(through_us),
                "trimmed_before": None if trimmed_us is None else iso(trimmed_us),
                "has_ended": figures.has_ended,
                "columns": {EVENT_TIME: "timestamp", **figures.status.stream.columns},
                "rows": list(documents(rows)),
                "has_more": rows.has_more,
            }
        )
        return 0
    print(_table_of(rows))
    shown = counted(len(rows.values), "row")
    more = "; more with --limit or --from" if rows.has_more else ""
    gone = "" if trimmed_us is None else f", trimmed before {iso(trimmed_us)}"
    print(f"\n{shown} of {figures.name}, stable through {_through(figures)}{gone}{more}")
    return 0


# ------------------------------------------------------------ streams and rows


def _named(home: Home, wanted: str) -> StreamFigures:
    """A stream by name; Refused, with the nearest name, if there is none of it."""
    known = {str(s.stream.name): s for s in home.catalog.streams()}
    if wanted in known:
        return stream_figures(home, known[wanted])
    hint = did_you_mean(wanted, known, "it has " + (", ".join(known) or "none"))
    raise Refused(f"the home of {home.participant} has no stream {wanted!r}: {hint}")


def _asked(from_: str | None, to: str | None) -> Range:
    from_us = BEGINNING_US if from_ is None else parse_time_us("--from", from_)
    to_us = FOREVER_US if to is None else parse_time_us("--to", to)
    if from_us >= to_us:
        raise Refused(f"--from {from_} is not before --to {to}: --to is exclusive")
    return Range(from_us, to_us)


def _rows(home: Home, stream: StreamFigures, asked: Range, limit: int) -> Rows:
    kept_from_us, through_us = stream.status.kept_from_us, stream.stable_through_us
    stable = None
    if kept_from_us is not None and through_us is not None and kept_from_us < through_us:
        stable = Range(kept_from_us, through_us).intersection(asked)
    columns = columns_of(stream.status.stream)
    if stable is None:
        return Rows(columns=columns, stimes_us=(), values=(), has_more=False)
    inside = [s for s in stream.segments if s.range.overlaps(stable)]
    return read_rows(home.storage, inside, columns, stable, limit)


def _table_of(rows: Rows) -> str:
    names = (EVENT_TIME, *(c.name for c in rows.columns))
    # As they are: digits of a number that is a name or a time are not set apart by commas.
    body = [
        (iso(at), *map(plain, values))
        for at, values in zip(rows.stimes_us, rows.values, strict=True)
    ]
    return table(names, body)


def _through(stream: StreamFigures) -> str:
    through_us = stream.stable_through_us
    return "not begun" if through_us is None else iso(through_us)


def _stream(stream: StreamFigures) -> Mapping[str, Any]:
    status = stream.status
    through_us = stream.stable_through_us
    return {
        "stream": status.stream.name,
        "kind": status.stream.kind,
        "producer": str(status.producer),
        "width_us": status.stream.width_us,
        "version": status.version,
        "stable_through": None if through_us is None else iso(through_us),
        "stable_through_us": through_us,
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
