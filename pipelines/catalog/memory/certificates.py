"""Certificates in memory, and the history of lines that they speak of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from medusa_core.certificates import Certificate, LineEvent
from medusa_core.errors import Refused
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.segments import Producer, Segment
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import CommitRow, SegmentRow


def history(
    work: Transaction, stream: StreamName, producer: Producer, part: Range
) -> tuple[LineEvent, ...]:
    """See `Catalog.history`."""
    events = []
    for row in _rows(work, stream, producer, part):
        made = work.get(tables.COMMITS, row.commit_key)
        segment = row.segment
        events.append(
            LineEvent(
                range=segment.range,
                stability=segment.stability,
                begin_version=row.begin_version,
                end_version=row.end_version,
                committed_at_ms=made.committed_at_ms if made else 0,
                inputs_at_ms=_inputs_at_ms(work, segment, made) if made else None,
                age_ms=segment.age_ms,
                missing=segment.missing,
                rows=segment.rows,
            )
        )
    return tuple(sorted(events, key=lambda e: (e.begin_version, e.range)))


def _rows(
    work: Transaction, stream: StreamName, producer: Producer, part: Range
) -> Iterator[SegmentRow]:
    line = work.get(tables.LINES, (stream, producer))
    rows = (*line.live, *line.superseded) if line else ()
    return (row for row in rows if row.segment.range.overlaps(part))


def _inputs_at_ms(work: Transaction, segment: Segment, made: CommitRow) -> int | None:
    at_ms: dict[StreamName, int] = {}
    for read in made.commit.lineage:
        # Of an input that is lacking, what a window reaches back over came long before.
        if read.output != segment.stream or read.input in segment.missing:
            continue
        for row in _rows(work, read.input, read.producer, read.range):
            wrote = work.get(tables.COMMITS, row.commit_key)
            if row.segment.version == read.version and wrote:
                at_ms[read.input] = max(at_ms.get(read.input, 0), wrote.committed_at_ms)
    return min(at_ms.values(), default=None)


def record(work: Transaction, certificate: Certificate) -> int:
    """See `Catalog.record_certificate`."""
    stream, producer = certificate.stream, certificate.producer
    if work.get(tables.LINES, (stream, producer)) is None:
        raise Refused(f"stream {stream} has no line by {producer}: deploy an assignment first")
    number = work.next_number()
    now_ms = work.store.clock.now_ms
    written = replace(certificate, number=number, certified_at_ms=now_ms)
    work.put(tables.CERTIFICATES, number, written)
    return number


def certificates(
    work: Transaction, stream: StreamName | None, limit: int | None
) -> tuple[Certificate, ...]:
    """See `Catalog.certificates`."""
    newest = sorted(work.rows(tables.CERTIFICATES).items(), reverse=True)
    found = [c for _, c in newest if stream is None or c.stream == stream]
    return tuple(found[:limit])
