"""Recalling: finds the line that an operator means, checks that it can be recomputed, recalls.

The affected results are found and taken back by the catalog, in one transaction. Only the
fragments know which ranges their windows read again, so these are found here, and held by the
catalog.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from medusa_core.errors import Refused
from medusa_core.exchange import LineNews
from medusa_core.grid import BEGINNING_US, floor_us
from medusa_core.names import Participant, StreamName
from medusa_core.recalls import LineRecall, RecallRequest, RecallResult
from medusa_core.suggest import did_you_mean
from medusa_core.trims import begins_us, earliest_bucket_us
from pipelines.base.time_text import iso
from pipelines.catalog.lines_read import lines_read
from pipelines.catalog.processing_roles import Deployments, Recalls
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import LineStatus
from pipelines.exchange.exchange_port import ExchangeCalls
from pipelines.participant.trimming import shapes_here


class RecallingHome(Deployments, Lines, Recalls, Protocol):
    """What a recall is planned from, and made in."""


SEGMENTS_PER_NEWS_MAX = 1_024


def line_to_recall(catalog: Lines, name: str, follow: Participant | None) -> LineStatus:
    """The line that is meant: what this home computes of the stream, else what it has chosen; with
    `follow`, its copy of that participant's.

    Refused, with what to do, if there is none.
    """
    here = catalog.participant
    lines = catalog.lines(StreamName(name))
    if not lines:
        known = sorted({str(line.stream.name) for line in catalog.lines()})
        hint = did_you_mean(name, known, "it has " + (", ".join(known) or "none"))
        raise Refused(f"the home of {here} has no stream {name!r}: {hint}")
    writers = sorted({str(line.producer.participant) for line in lines} - {here})
    if follow is not None:
        copies = [line for line in lines if line.producer.participant == follow != here]
        if not copies:
            hint = did_you_mean(follow, writers, "there: " + (", ".join(writers) or "nobody"))
            raise Refused(f"{name} is read of no partner {follow} here: {hint}")
        return copies[0]
    own = [line for line in lines if line.producer.participant == here]
    if not own:
        raise Refused(
            f"{name} is computed by {', '.join(writers)}, not by {here}: recall it there, and "
            "follow here with --follow"
        )
    return min(own, key=lambda line: line.producer.is_import)


def check_begin(line: LineStatus, from_us: int, *, is_followed: bool = False) -> None:
    """Refuse a bucket from which a line has nothing to recall, naming one where it has.

    A partner asks nobody how much of its line is kept here, so that a recall that is followed may
    begin before.
    """
    name, width_us = line.stream.name, line.stream.width_us
    if from_us % width_us:
        before_us = floor_us(from_us, width_us)
        raise Refused(
            f"{iso(from_us)} is no bucket of {name}: give {iso(before_us)} or "
            f"{iso(before_us + width_us)}"
        )
    reached_us = line.live_through_us
    if line.origin_us is None or reached_us is None:
        raise Refused(f"{name} has not begun: there is nothing to recall")
    kept_us = line.kept_from_us or line.origin_us
    if from_us < line.origin_us:
        raise Refused(f"{name} begins at {iso(line.origin_us)}: recall it from there on, or later")
    if from_us < kept_us and not is_followed:
        raise Refused(f"{name} is trimmed before {iso(kept_us)}: recall it from there on, or later")
    if from_us >= reached_us:
        raise Refused(f"{name} reaches to {iso(reached_us)}: from there on nothing is to recall")


def recall_of(exchange: ExchangeCalls, line: LineStatus) -> LineRecall:
    """What the partner of a line recalled that this home has not followed, as it tells now.

    Raises Refused if it recalled nothing, Unavailable if it does not answer.
    """
    news = _first_with_recalls(exchange, line)
    new = [r for r in news.recalls if r.generation > line.generation]
    if not new:
        raise Refused(
            f"partner {line.producer.participant} has recalled nothing of {line.stream.name} that "
            "was read here: there is nothing to follow"
        )
    return replace(new[-1], from_us=min(recall.from_us for recall in new))


def _first_with_recalls(exchange: ExchangeCalls, line: LineStatus) -> LineNews:
    # Any page tells of all recalls behind it, so that the first one does.
    return exchange.line_news(
        line.stream.name, line.producer, line.version, segments_max=SEGMENTS_PER_NEWS_MAX
    )


def with_needs(catalog: RecallingHome, request: RecallRequest) -> RecallRequest:
    """The request, with what has to be read again.

    Refused, naming the bucket from which on it could be, if a part of that is trimmed; of what is
    computed from a partner's line that part stays.
    """
    plan = catalog.recall(request, explain=True)
    shapes, needed = shapes_here(catalog), dict[str, Mapping[StreamName, int]]()
    widths = {line.stream.name: line.stream.width_us for line in catalog.lines()}
    kept, stays = _kept_from_us(catalog), dict[StreamName, int]()
    for name, shaped in shapes.items():
        its = [r for r in plan if _is_computed(catalog, r) and r.stream in shaped[-1].outputs]
        if not its:
            continue
        width_us = max(widths[StreamName(o)] for o in shaped[-1].outputs if StreamName(o) in widths)
        from_us = floor_us(min(r.from_us for r in its), width_us)
        could_us = max(earliest_bucket_us(shape, from_us, width_us, kept) for shape in shaped)
        if could_us > from_us and request.follows is None:
            raise Refused(
                f"{name} cannot compute again what is recalled from {iso(from_us)} on, because "
                f"what it reads is trimmed: recall from {iso(could_us)} on, or later"
            )
        if could_us > from_us:
            stays |= dict.fromkeys((r.stream for r in its), could_us)
        begins: dict[StreamName, int] = {}
        for shape in shaped:
            for stream, at_us in begins_us(shape, could_us).items():
                begins[stream] = min(begins.get(stream, at_us), at_us)
        needed[name] = {s: max(at_us, BEGINNING_US) for s, at_us in begins.items()}
    return replace(request, needed=needed, stays=stays)


def _is_computed(catalog: Lines, recalled: RecallResult) -> bool:
    producer = recalled.producer
    return producer.participant == catalog.participant and not producer.is_import


def _kept_from_us(catalog: Lines) -> dict[StreamName, int]:
    """From when on the streams that are read here are kept, if something of them is trimmed."""
    read = lines_read(catalog.lines(), catalog.participant)
    return {
        name: line.trimmed_us
        for name, line in read.items()
        if line.trimmed_us is not None and line.trimmed_us != line.origin_us
    }


def total_rows(recalled: Sequence[RecallResult]) -> int:
    """How many rows are taken back together."""
    return sum(r.rows for r in recalled)
