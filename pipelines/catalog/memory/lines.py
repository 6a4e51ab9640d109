"""Lines of the in-memory catalog: how they stand, and time travel."""

from __future__ import annotations

from medusa_core.grid import BEGINNING_US, Range
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer, Read
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import CommitRow, LineRow, SegmentRow
from pipelines.catalog.records import LineStatus, StepRecord, StreamStatus


def sorted_lines(transaction: Transaction) -> list[tuple[tuple[StreamName, Producer], LineRow]]:
    """All lines by stream and producer; not to be changed."""
    lines = transaction.rows(tables.LINES)
    return transaction.made_of(
        "lines", (lines,), lambda: sorted(lines.items(), key=lambda item: item[0])
    )


def reached_us(transaction: Transaction, stream: StreamName) -> int:
    """How far the furthest line of a stream reaches; below every time before one has begun."""
    reached = (
        line.boundary_us
        for (name, _), line in transaction.rows(tables.LINES).items()
        if name == stream and line.boundary_us is not None
    )
    return max(reached, default=BEGINNING_US - 1)


def lineage_of(transaction: Transaction, row: SegmentRow) -> tuple[Read, ...]:
    """What a row's content was computed from."""
    made = transaction.get(tables.COMMITS, row.commit_key)
    if made is None:
        return ()  # imported: what it was computed from is its producer's to tell
    return tuple(read for read in made.commit.lineage if read.output == row.segment.stream)


def segment_rows(
    transaction: Transaction,
    stream: StreamName,
    part: Range | None,
    producer: Producer | None,
    as_of: Version | None,
) -> list[SegmentRow]:
    """Rows of a stream that are live, or were at a version, in event-time order."""
    found: list[SegmentRow] = []
    for (name, who), line in sorted_lines(transaction):
        if name != stream or producer not in (None, who):
            continue
        rows = line.live if as_of is None else (*line.live, *line.superseded)
        found += [
            row
            for row in rows
            if (as_of is None or row.is_live_at(as_of))
            and (part is None or row.segment.range.overlaps(part))
        ]
    return sorted(found, key=lambda row: (row.segment.range.from_us, row.segment.producer))


def line_statuses(
    transaction: Transaction, stream: StreamName | None = None
) -> tuple[LineStatus, ...]:
    """Every line as it stands, or every one of a stream."""
    return tuple(
        _status(transaction, *key, line)
        for key, line in sorted_lines(transaction)
        if stream in (None, key[0])
    )


def stream_statuses(transaction: Transaction) -> tuple[StreamStatus, ...]:
    """The same, counted."""
    return tuple(
        StreamStatus.of(
            _status(transaction, *key, line),
            segments=len(line.live),
            rows=sum(row.segment.rows for row in line.live),
        )
        for key, line in sorted_lines(transaction)
    )


def _status(
    transaction: Transaction, stream: StreamName, producer: Producer, line: LineRow
) -> LineStatus:
    record = transaction.get(tables.STREAMS, stream)
    assert record is not None, f"a line of {stream} implies the stream"

    def make() -> LineStatus:
        return LineStatus(
            stream=record,
            producer=producer,
            version=line.version,
            origin_us=line.origin_us,
            boundary_us=BEGINNING_US if line.boundary_us is None else line.boundary_us,
            promised_us=line.promised_us,
            end_us=line.end_us,
            tentative_us=line.tentative_us,
            trimmed_us=line.trimmed_us,
            corrected_us=_corrected_us(line),
            generation=line.generation,
        )

    return transaction.made_of(("status", stream, producer), (record, line), make)


def _corrected_us(line: LineRow) -> int | None:
    ended = [(r.end_version or 0, r.segment.range.to_us) for r in line.superseded]
    return max(ended)[1] if ended else None


def step_of(row: CommitRow) -> StepRecord:
    """A commit as it was made."""
    commit, ranges = row.commit, [segment.range for segment in row.commit.segments]
    return StepRecord(
        commit_key=commit.key,
        fragment=commit.lease.key.fragment,
        plan=commit.plan,
        cause=commit.cause.value,
        range=Range(min(r.from_us for r in ranges), max(r.to_us for r in ranges)),
        committed_at_ms=row.committed_at_ms,
        versions=row.versions,
        metrics=commit.metrics,
    )
