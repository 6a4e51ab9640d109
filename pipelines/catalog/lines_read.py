"""Which line of each stream a home reads: one rule for all that read (`reading_order`)."""

from __future__ import annotations

from collections.abc import Iterable

from medusa_core.names import Participant, StreamName
from medusa_core.segments import reading_order
from pipelines.catalog.records import LineStatus


def lines_read(lines: Iterable[LineStatus], here: Participant) -> dict[StreamName, LineStatus]:
    """One line of each stream, by name."""
    chosen: dict[StreamName, LineStatus] = {}
    for line in sorted(lines, key=lambda one: reading_order(one.producer, here)):
        chosen.setdefault(line.stream.name, line)
    return dict(sorted(chosen.items()))
