"""Knowledge for the choice among several producers: what both catalogs do alike.

In two strides, like the knowledge of fragments: first how the lines stand, then the live rows of
the producers that could be chosen or compared now. Nothing here grows with the history behind the
import's boundary, and where nothing is new no row is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from medusa_core.comparing import to_compare
from medusa_core.grid import FOREVER_US, Range, merged_ranges
from medusa_core.imports import ImportKnowledge, ProducedLine
from medusa_core.knowledge import Limits
from medusa_core.segments import Producer, Segment
from pipelines.catalog.knowledge_rows import Line, SegmentAnswer, SegmentRequest


class What(Enum):
    """A request for rows of one producer."""

    AHEAD = "ahead"
    OWED = "owed"
    COMPARED = "compared"


@dataclass(frozen=True, slots=True)
class RowsRequest:
    """Rows that one producer has, and for what."""

    what: What
    request: SegmentRequest


def limits_of(limits: Limits) -> Limits:
    """How much is read of a line at once: rows of the catalog are chosen, no record is read."""
    return replace(limits, records_per_step_max=FOREVER_US)


def rows_requested(
    knowledge: ImportKnowledge, line_ids: Mapping[Producer, int]
) -> Iterator[RowsRequest]:
    """The rows of the producers that could be chosen or compared now."""
    starts_us, part = knowledge.starts_us, to_compare(knowledge.producers)
    for line in knowledge.producers:
        if line.boundary_us is None:
            continue

        def want(
            what: What, from_us: int, need_us: int, at: ProducedLine = line, *, goes_on: bool = True
        ) -> RowsRequest:
            read = _line(knowledge, at, line_ids[at.producer])
            request = SegmentRequest(line=read, from_us=from_us, need_us=need_us, goes_on=goes_on)
            return RowsRequest(what, request)

        has_more = starts_us is not None and _reach_us(line) > starts_us
        if starts_us is not None and has_more and not knowledge.has_ended:
            yield want(What.AHEAD, starts_us, starts_us + 1)
        for owed in merged_ranges(knowledge.tentative):
            yield want(What.OWED, owed.from_us, owed.to_us, goes_on=False)
        if part is not None:
            yield want(What.COMPARED, part.from_us, part.from_us + 1)


def with_rows(
    knowledge: ImportKnowledge, answers: Sequence[tuple[RowsRequest, SegmentAnswer]]
) -> ImportKnowledge:
    """The knowledge with the requested rows, and with how far they reach."""
    if not answers:
        return knowledge  # of most streams nothing is new at most ticks
    found: dict[Producer, dict[int, Segment]] = {p.producer: {} for p in knowledge.producers}
    ends: dict[What, list[int]] = {what: [] for what in What}
    for rows_request, answer in answers:
        rows = found[rows_request.request.line.producer]
        rows.update((segment.range.from_us, segment) for segment in answer.segments)
        if answer.next_from_us is not None:
            ends[rows_request.what].append(answer.next_from_us)
    part = to_compare(knowledge.producers)
    if part is not None:
        to_us = min(part.to_us, *ends[What.COMPARED], FOREVER_US)
        part = Range(part.from_us, to_us) if part.from_us < to_us else None
    return replace(
        knowledge,
        producers=tuple(
            replace(p, segments=tuple(found[p.producer][at] for at in sorted(found[p.producer])))
            for p in knowledge.producers
        ),
        window_us=min(ends[What.AHEAD], default=FOREVER_US),
        compare=part,
    )


def _reach_us(line: ProducedLine) -> int:
    if line.has_ended and line.end_us is not None:
        return line.end_us
    return line.boundary_us or 0


def _line(knowledge: ImportKnowledge, line: ProducedLine, line_id: int) -> Line:
    return Line(
        line_id=line_id,
        stream=knowledge.stream,
        producer=line.producer,
        kind="derived",
        width_us=knowledge.width_us,
        origin_us=line.origin_us,
        boundary_us=line.boundary_us,
        promised_us=None,
        end_us=line.end_us,
        tentative_us=line.tentative_us,
    )
