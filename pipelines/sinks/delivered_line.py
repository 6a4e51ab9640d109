"""Which line of a stream a home delivers."""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.names import Participant, StreamName
from medusa_core.segments import reading_order
from pipelines.catalog.records import LineStatus


def line_of(lines: Sequence[LineStatus], stream: StreamName, here: str) -> LineStatus | None:
    """The line that a home reads of a stream: see `reading_order`."""
    found = [line for line in lines if line.stream.name == stream]
    return min(found, key=lambda ln: reading_order(ln.producer, Participant(here)), default=None)
