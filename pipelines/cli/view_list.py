"""`medusa view list`: the views of a home, and where each begins now."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from medusa_core.grid import BEGINNING_US
from medusa_core.suggest import counted
from pipelines.base.settings import Settings
from pipelines.base.text_table import table
from pipelines.base.time_text import duration, iso
from pipelines.cli.arguments import add_home, add_json

if TYPE_CHECKING:
    from medusa_core.views import StreamView

HELP = "the views of a home, and where each begins now"
HEADING = ("view", "stream", "keeps", "begins at", "expires at")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `medusa view list`."""
    add_home(parser)
    add_json(parser)


def run(options: argparse.Namespace, settings: Settings) -> int:
    """Print a line for each view."""
    from pipelines.operations.stream_views import list_views

    found = list_views(settings, options.participant)
    if options.json:
        views = [document(view) for view in found.views]
        print(json.dumps({"participant": found.participant, "views": views}, indent=1))
    elif not found.views:
        print(f"{found.participant} has no views: medusa view make")
    else:
        print(table(HEADING, map(_row, found.views)))
    return 0


def extent(view: StreamView) -> str:
    """What a view keeps, for people."""
    if view.records is not None:
        return f"the last {counted(view.records, 'record')}"
    if view.duration_us is not None:
        return f"the last {duration(view.duration_us)}"
    assert view.from_us is not None
    return f"from {iso(view.from_us)}" + ("" if view.to_us is None else f" to {iso(view.to_us)}")


def document(view: StreamView) -> Mapping[str, Any]:
    """A view for JSON."""
    return {
        "view": view.name,
        "stream": view.stream,
        "records": view.records,
        "duration_us": view.duration_us,
        "from_us": view.from_us,
        "to_us": view.to_us,
        "begins_us": _begins_us(view),
        "limit_ms": view.limit_ms,
        "used_at_ms": view.used_at_ms,
        "is_expired": view.is_expired,
    }


def _row(view: StreamView) -> tuple[str, ...]:
    begins_us = _begins_us(view)
    return (
        view.name,
        view.stream,
        extent(view),
        "" if begins_us is None else iso(begins_us),
        _expiry(view),
    )


def _begins_us(view: StreamView) -> int | None:
    return None if view.begins_us == BEGINNING_US else view.begins_us


def _expiry(view: StreamView) -> str:
    if view.is_expired or view.used_at_ms is None or view.limit_ms is None:
        return "expired: remove it"
    return iso((view.used_at_ms + view.limit_ms) // 1_000 * 1_000_000)
