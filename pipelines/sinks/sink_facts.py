"""Facts about the sinks of a home, as status and metrics show them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from medusa_core.errors import Refused
from medusa_core.sinks import SinkRecord
from pipelines.catalog.records import LineStatus
from pipelines.sinks.delivered_line import line_of
from pipelines.sinks.sink_declaration import declaration_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFacts:
    """A sink and how far it is behind the stable prefix of its stream, in event time.

    `behind_us` is None before the stream has begun or what was delivered is known; `is_finished`
    tells that the stream has ended and all of it was delivered. `kind` is empty, and `target` too,
    if the declaration cannot be read.
    """

    sink: SinkRecord
    kind: str
    target: str
    behind_us: int | None
    is_finished: bool


def sink_facts(
    sinks: Sequence[SinkRecord], lines: Sequence[LineStatus], here: str
) -> Iterator[SinkFacts]:
    """The facts of each sink."""
    for sink in sinks:
        line = line_of(lines, sink.stream, here)
        behind_us = _behind_us(sink, line)
        try:
            declared = declaration_of(sink)
            kind, target = declared.kind, declared.target
        except Refused:
            kind, target = "", ""
        yield SinkFacts(
            sink=sink,
            kind=kind,
            target=target,
            behind_us=behind_us,
            is_finished=line is not None
            and line.has_ended
            and line.tentative_us is None
            and behind_us == 0,
        )


def _behind_us(sink: SinkRecord, line: LineStatus | None) -> int | None:
    if line is None or line.origin_us is None or line.stable_through_us is None:
        return None
    through_us = max(sink.holds_from_us, line.origin_us)
    return max(line.stable_through_us - through_us, 0)
