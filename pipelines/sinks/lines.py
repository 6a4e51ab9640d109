"""Which line of a stream a home delivers."""

from __future__ import annotations

from collections.abc import Sequence

from medusa_core.names import StreamName
from pipelines.catalog.interface import LineStatus


def line_of(lines: Sequence[LineStatus], stream: StreamName, here: str) -> LineStatus | None:
    """The line that a home reads of a stream: its own, else the first by name."""
    found = [line for line in lines if line.stream.name == stream]
    return min(found, key=lambda ln: (ln.producer.participant != here, ln.producer), default=None)
