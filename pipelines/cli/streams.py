"""`medusa streams`: the streams of a home and how far each is."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import duration, iso
from pipelines.cli.arguments import add_home, add_json
from pipelines.cli.status_text import disputed_lines

if TYPE_CHECKING:
    from pipelines.operations.stream_reading import StreamList
    from pipelines.report.figures import StreamFigures

HELP = "the streams of a home and how far each is"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa streams`."""
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print the streams of a home."""
    from pipelines.operations.stream_reading import list_streams

    result = list_streams(settings, options.participant)
    if options.json:
        print(json.dumps(document(result), indent=1, allow_nan=False))
    else:
        print(render(result))
    return 0


def document(result: StreamList) -> Mapping[str, Any]:
    """The result for JSON."""
    streams = [_stream(one, result.disputed_us.get(one.name)) for one in result.streams]
    return {"participant": result.participant, "streams": streams}


def render(result: StreamList) -> str:
    """The result for a terminal."""
    if not result.streams:
        return f"{result.participant} has no streams yet"
    names = (
        "stream",
        "kind",
        "width",
        "version",
        "stable through",
        "tentative through",
        "corrected through",
        "rows",
        "non-empty buckets",
        "segments",
        "ended",
    )
    rows = [_row(stream) for stream in result.streams]
    return "\n".join([table(names, rows), *disputed_lines(document(result)["streams"])])


def _row(one: StreamFigures) -> tuple[object, ...]:
    status = one.status
    return (
        one.name,
        status.stream.kind,
        duration(status.stream.width_us),
        status.version,
        _time(one.stable_through_us) or "not begun",
        _time(status.tentative_through_us) or "",
        _time(status.corrected_through_us) or "",
        status.rows,
        len(one.buckets),
        len(one.segments),
        "yes" if one.has_ended else "no",
    )


def _stream(one: StreamFigures, disputed_us: int | None) -> Mapping[str, Any]:
    status = one.status
    return {
        "stream": status.stream.name,
        "kind": status.stream.kind,
        "producer": str(status.producer),
        "width_us": status.stream.width_us,
        "version": status.version,
        "stable_through": _time(one.stable_through_us),
        "stable_through_us": one.stable_through_us,
        "tentative_through": _time(status.tentative_through_us),
        "tentative_through_us": status.tentative_through_us,
        "corrected_through": _time(status.corrected_through_us),
        "corrected_through_us": status.corrected_through_us,
        "disputed_from": _time(disputed_us),
        "disputed_from_us": disputed_us,
        "rows": status.rows,
        "buckets": len(one.buckets),
        "segments": len(one.segments),
        "has_ended": one.has_ended,
        "digest": str(one.digest),
        "columns": dict(status.stream.columns),
    }


def _time(at_us: int | None) -> str | None:
    return None if at_us is None else iso(at_us)
