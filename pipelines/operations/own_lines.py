"""A participant's own lines: those of streams that its fragments output."""

from __future__ import annotations

from medusa_core.errors import Unavailable
from medusa_core.names import StreamName
from pipelines.catalog.records import LineStatus
from pipelines.homes.home import Home


def computed_lines(home: Home, stream: StreamName | None = None) -> list[LineStatus]:
    """The lines that are computed in a home, of one stream or all; copies and sources are none."""
    return [
        line
        for line in home.catalog.lines(stream)
        if line.producer.participant == home.participant
        and not line.producer.is_import
        and line.stream.kind == "derived"
    ]


def computed_line(home: Home, stream: str) -> LineStatus:
    """The line of one of these streams; Unavailable if it is not computed there any more."""
    found = computed_lines(home, StreamName(stream))
    if not found:
        raise Unavailable(f"{stream} is not computed by {home.participant} any more: start again")
    return found[0]
