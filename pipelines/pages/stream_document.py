"""A stream as a document, or the list of streams that leads to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medusa_core.first_outputs import FirstOutput
from medusa_core.grid import floor_us
from medusa_core.names import Participant
from pipelines.base.time_text import iso
from pipelines.catalog.records import progress_of
from pipelines.pages.acts import stream_acts
from pipelines.pages.bucket_document import bucket_document, parse_bucket
from pipelines.pages.dag_runs import RUNS_MAX, is_about, run_document
from pipelines.pages.page_home import Snapshot
from pipelines.pages.page_kinds import Document, Request
from pipelines.pages.stream_figures import (
    ANSWERS_MAX,
    KINDS,
    StreamFigures,
    TimelineFigures,
    line_name,
    read_stream,
)
from pipelines.pages.time_range import TimeRange, parse_range

LISTED_MAX = 100
NAME_CHARACTERS_MAX = 200


def streams_document(request: Request) -> Document:
    """With `stream` (and `home`) that stream, without it the list."""
    stream = _name(request, "stream")
    if not stream:
        return _list(request)
    return _stream(request, stream)


def _name(request: Request, field: str) -> str:
    """A value of the address that is looked up; no name has a NUL, and no statement may."""
    return request.query.get(field, "")[:NAME_CHARACTERS_MAX].replace("\0", "")


# ---------------------------------------------------------------- the list


def _list(request: Request) -> Document:
    """Names in order, `LISTED_MAX` of them; of each a row for every home that has it."""
    contains, after = _name(request, "q").strip().lower(), _name(request, "after")

    def read(home: Snapshot) -> list[dict[str, Any]]:
        rows = home.rows(
            "page_stream_names", contains=contains, after=after, limit=LISTED_MAX + 1
        )  # fmt: skip
        return [dict(row) for row in rows]

    of_homes = request.of_homes(f"streams {contains!r} {after!r}", read)
    names = sorted({row["stream"] for rows in of_homes.values() for row in rows})
    shown = set(names[:LISTED_MAX])
    listed = [
        {"home": home, **_progress(row), "kind": row["kind"], "lines": row["has_lines"] or 0,
         "line": None if row["participant"] is None else line_name(row)}
        for home, rows in of_homes.items() for row in rows if row["stream"] in shown
    ]  # fmt: skip
    listed.sort(key=lambda one: (one["stream"], one["home"]))
    return {
        "view": "list",
        "contains": contains,
        "after": after,
        "streams": listed,
        "in_all": max((rows[0]["in_all"] for rows in of_homes.values() if rows), default=0),
        "next": names[LISTED_MAX - 1] if len(names) > LISTED_MAX else None,
    }


def _progress(row: Mapping[str, Any]) -> Document:
    """How far a line is final, and in which sense it is not."""
    progress = progress_of(row["origin_us"], row["boundary_us"], row["end_us"], row["tentative_us"])
    return {
        "stream": row["stream"],
        "width_us": row["width_us"],
        "origin_us": row["origin_us"],
        "stable_through_us": progress.stable_through_us,
        "tentative_through_us": progress.tentative_through_us,
        "has_ended": progress.has_ended,
    }


# ---------------------------------------------------------------- one stream


def _stream(request: Request, stream: str) -> Document:
    query = request.query
    home = _home(request, stream)
    document: Document = {"view": "stream", "stream": stream, "home": home, "found": False}
    if home is None:
        return document
    line, requested = query.get("line"), parse_range(query)
    part = f"stream {stream!r} {line!r} {requested}"
    figures: StreamFigures | None = request.of_home(
        home, part, lambda snapshot: read_stream(snapshot, stream, line, requested)
    )
    if figures is None:
        return document
    bucket_us, bucket_problem = parse_bucket(query.get("bucket"))
    problems = [one for one in (requested.problem, bucket_problem) if one]
    return {
        **document,
        "found": True,
        "home": home,
        "chosen": {
            "span": None if requested.is_chosen else requested.span,
            "from_us": requested.from_us,
            "to_us": requested.to_us,
        },
        "wrong": problems,
        **_declared(figures),
        "line": None if figures.line is None else _line(figures.line),
        "lines": [_line(row) for row in figures.lines if row["line_id"] is not None],
        "timeline": None if figures.timeline is None else _timeline(figures),
        "missing": [
            {**row, "buckets": _buckets(row["lacks_us"], figures)} for row in figures.missing
        ],
        "recalls": list(figures.recalls),
        "makers": list(figures.makers),
        "readers": list(figures.readers),
        "grants": list(figures.grants),
        "sold": list(figures.sold),
        "quarantine": list(figures.quarantine),
        "certificates": list(figures.certificates),
        "bucket": None if bucket_us is None or figures.line is None else bucket_document(
            request, home, figures.line, bucket_us),
        **_acts(request, home, figures, requested, bucket_us),
    }  # fmt: skip


def _acts(
    request: Request, home: Participant, figures: StreamFigures, requested: TimeRange,
    bucket_us: int | None,
) -> Document:  # fmt: skip
    """What may be done about the line, from the chosen bucket or range on, and the last runs."""
    first = figures.lines[0]
    stream, width_us = first["stream"], first["width_us"]
    from_us, to_us = requested.from_us, requested.to_us
    if bucket_us is not None:
        from_us = floor_us(bucket_us, width_us)
        to_us = from_us + width_us
    runs = request.last_runs()
    return {
        "may_trigger": request.viewer.may_trigger,
        "acts": [] if figures.line is None else stream_acts(
            home, stream, figures.line, is_source=first["kind"] == "source",
            from_time=None if from_us is None else iso(from_us),
            to_time=None if to_us is None else iso(to_us)),
        "runs": None if runs is None else [
            run_document(one) for one in runs
            if is_about(one, participant=home, stream=stream)][:RUNS_MAX],
    }  # fmt: skip


def _home(request: Request, stream: str) -> Participant | None:
    """The home that the address names, if it is shown; else the first that has the stream."""
    named = request.query.get("home")
    if named is not None:
        return next((home for home in request.homes if home == named), None)

    def has_it(snapshot: Snapshot) -> bool:
        return bool(snapshot.rows("page_stream", stream=stream))

    found = request.of_homes(f"has {stream!r}", has_it)
    return next((home for home, has in found.items() if has), None)


def _declared(figures: StreamFigures) -> Document:
    row = figures.lines[0]
    return {
        "kind": row["kind"],
        "width_us": row["width_us"],
        "columns": list(row["columns"]),
        "key": list(row["key_columns"]),
        "promise": {
            name: row[name]
            for name in ("bound_ms", "during_failure", "during_stabilization", "failure_ms_max",
                         "retention_ms", "verify_count", "follows_revisions")
        },
    }  # fmt: skip


def _line(row: Mapping[str, Any]) -> Document:
    return {
        **_progress(row),
        "name": line_name(row),
        "participant": row["participant"],
        "replica": row["replica"],
        "is_import": row["replica"] < 0,
        "version": row["version"],
        "generation": row["generation"],
        "trimmed_us": row["trimmed_us"],
    }


def _buckets(length_us: int, figures: StreamFigures) -> int:
    return int(-(-length_us // figures.lines[0]["width_us"]))


def _timeline(figures: StreamFigures) -> Document:
    found = figures.timeline
    assert found is not None
    cells = found.cells
    totals = {kind: sum(cell.get(kind, 0) for cell in found.covered_us) for kind in KINDS}
    return {
        "from_us": cells.from_us,
        "to_us": cells.to_us,
        "cell_us": cells.cell_us,
        "cells": [dict(cell) for cell in found.covered_us],
        "totals": {kind: _buckets(length, figures) for kind, length in totals.items()},
        "is_cut": found.is_cut,
        "answers": _answers(found, figures.lines[0]["bound_ms"]),
    }


def _answers(found: TimelineFigures, bound_ms: int | None) -> Document:
    delays = sorted(d for one in found.answers if (d := one.delay_ms) is not None)
    return {
        "from_us": found.answers_from_us,
        "rows_max": ANSWERS_MAX,
        "known": len(delays),
        "delay_ms_max": delays[-1] if delays else None,
        "delay_ms_half": delays[len(delays) // 2] if delays else None,
        "late": sum(d > bound_ms for d in delays) if bound_ms is not None else None,
        "of_cells": _delays_of_cells(found.answers, found),
    }


def _delays_of_cells(answers: Sequence[FirstOutput], found: TimelineFigures) -> list[Any]:
    """Of each cell with an answer: its number, the greatest delay, whether that was tentative."""
    cells = found.cells
    worst: dict[int, tuple[int, bool]] = {}
    for one in answers:
        delay = one.delay_ms
        if delay is None:
            continue
        first = (one.range.from_us - cells.from_us) // cells.cell_us
        last = (one.range.to_us - 1 - cells.from_us) // cells.cell_us
        for at in range(max(first, 0), min(last, cells.count - 1) + 1):
            worst[at] = max(worst.get(at, (-1, False)), (delay, one.is_tentative))
    return [[at, *worst[at]] for at in sorted(worst)]
