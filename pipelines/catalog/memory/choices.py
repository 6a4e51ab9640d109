"""Choices among several producers in memory, written from the words of `Catalog`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from medusa_core.commits import CommitResult, Lease
from medusa_core.divergence import Divergence
from medusa_core.errors import Conflict, Refused
from medusa_core.exchange import IMPORT_PREFIX
from medusa_core.grid import FOREVER_US, Range, floor_us
from medusa_core.imports import (
    ChosenRows,
    ImportKnowledge,
    ProducedLine,
    commits_of,
    is_import_of,
)
from medusa_core.knowledge import Limits
from medusa_core.names import Participant, StreamName
from medusa_core.segments import IMPORT, Producer, Segment, Stability
from pipelines.catalog.import_rows import limits_of, rows_requested, with_rows
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.commit import check_lease, commit_step, is_tentative, lock_line
from pipelines.catalog.memory.knowledge import read_segments
from pipelines.catalog.memory.lines import sorted_lines
from pipelines.catalog.memory.store import Table, Transaction
from pipelines.catalog.memory.tables import LineRow
from pipelines.catalog.records import Assignment

VERIFIES: Table[StreamName, int] = Table("stream_verify")
DIVERGENCES: Table[int, Divergence] = Table("divergence")
COMPARED: Table[tuple[StreamName, Producer], int] = Table("stream_producer_compared")


def declare_verify(transaction: Transaction, stream: StreamName, count: int) -> None:
    """See `Guarantees.declare_verify`."""
    if transaction.get(tables.STREAMS, stream) is None:
        raise Refused(f"stream {stream} is not deployed here: deploy its network first")
    if count < 1:
        raise Refused(f"stream {stream} cannot be verified by {count} producers: give 1 or more")
    transaction.put(VERIFIES, stream, count)


def verifies(transaction: Transaction) -> dict[StreamName, int]:
    """See `Guarantees.verifies`."""
    return {stream: n for stream, n in sorted(transaction.rows(VERIFIES).items()) if n > 1}


def divergences(
    transaction: Transaction, stream: StreamName | None = None
) -> tuple[Divergence, ...]:
    """See `Imports.divergences`."""
    found = [d for _, d in sorted(transaction.rows(DIVERGENCES).items())]
    return tuple(d for d in found if stream in (None, d.stream))


def disputed(transaction: Transaction) -> dict[StreamName, int]:
    """See `Imports.disputed`."""
    found: dict[StreamName, int] = {}
    waiting = [(d.stream, d.bucket_us) for d in divergences(transaction)]
    while waiting:
        stream, from_us = waiting.pop()
        if found.get(stream, FOREVER_US) <= from_us:
            continue
        found[stream] = from_us
        for row in transaction.rows(tables.FRAGMENTS).values():
            if stream in row.inputs:
                waiting += [(s, floor_us(from_us, _width_us(transaction, s))) for s in row.outputs]
    return dict(sorted(found.items()))


def _width_us(transaction: Transaction, stream: StreamName) -> int:
    record = transaction.get(tables.STREAMS, stream)
    assert record is not None, "a fragment writes streams that are deployed"
    return record.width_us


def read_imports(
    transaction: Transaction, here: Participant, limits: Limits
) -> tuple[ImportKnowledge, ...]:
    """See `Imports.read_imports`."""
    found: list[ImportKnowledge] = []
    for knowledge in _import_statuses(transaction, here, limits):
        ids = {p.producer: number for number, p in enumerate(knowledge.producers)}
        answers = [
            (requests, read_segments(transaction, requests.request, limits_of(limits)))
            for requests in rows_requested(knowledge, ids)
        ]
        found.append(with_rows(knowledge, answers))
    return tuple(found)


def _import_statuses(
    transaction: Transaction, here: Participant, limits: Limits
) -> Iterator[ImportKnowledge]:
    """How the import's lines of this home stand, and those of the producers."""
    for stream, assigned in _assigned(transaction, here):
        line = transaction.get(tables.LINES, (stream, assigned.producer))
        if line is None:
            continue
        rows = {
            producer: row
            for (name, producer), row in sorted_lines(transaction)
            if name == stream and not producer.is_import
        }
        verify = transaction.get(VERIFIES, stream) or 1
        known = divergences(transaction, stream)
        newest = [r.segment for r in line.live if r.segment.range.to_us == _reach_us(line)]
        yield ImportKnowledge(
            stream=stream,
            reader=assigned.producer,
            epoch=assigned.epoch,
            plan=assigned.plan,
            width_us=_width_us(transaction, stream),
            partition=assigned.partition,
            verify=verify,
            boundary_us=line.boundary_us,
            end_us=line.end_us,
            lacks=next((s.missing for s in newest if not s.stability.is_final), None),
            producers=tuple(
                _produced(row, producer, transaction.get(COMPARED, (stream, producer)))
                for producer, row in rows.items()
            ),
            tentative=tuple(
                part
                for part in (r.segment.range for r in line.live if is_tentative(r))
                if part.from_us < min((d.bucket_us for d in known), default=FOREVER_US)
                and _may_be_final(list(rows.values()), part, verify)
            )[: limits.buckets_per_step_max],
            divergences=known,
            clock_ms=transaction.store.clock.now_ms,
        )


def _assigned(transaction: Transaction, here: Participant) -> list[tuple[StreamName, Assignment]]:
    log = transaction.rows(tables.ASSIGNMENTS)

    def make() -> list[tuple[StreamName, Assignment]]:
        newest: dict[StreamName, Assignment] = {}
        for (fragment, _, _), row in sorted(log.items()):
            if row.producer == Producer(here, IMPORT) and fragment.startswith(IMPORT_PREFIX):
                newest[StreamName(fragment.removeprefix(IMPORT_PREFIX))] = row
        return sorted(newest.items())

    return transaction.made_of(("chosen", here), (log,), make)


def _reach_us(line: LineRow) -> int | None:
    return line.end_us if line.boundary_us == FOREVER_US else line.boundary_us


def _produced(line: LineRow, producer: Producer, compared_us: int | None) -> ProducedLine:
    return ProducedLine(
        producer=producer,
        origin_us=line.origin_us,
        boundary_us=line.boundary_us,
        end_us=line.end_us,
        tentative_us=line.tentative_us,
        trimmed_us=line.trimmed_us,
        compared_us=compared_us,
    )


def _may_be_final(lines: Sequence[LineRow], part: Range, verify: int) -> bool:
    """Whether so many producers have something final over a range that it may be chosen."""
    stable = lost = 0
    for line in lines:
        over: list[Segment] = [row.segment for row in line.live_over(part)]
        has_ended = line.boundary_us == FOREVER_US and (line.end_us or 0) < part.to_us
        stable += has_ended or any(s.stability is Stability.STABLE for s in over)
        is_trimmed = line.trimmed_us is not None and line.trimmed_us > part.from_us
        lost += is_trimmed or any(s.stability is Stability.GAP for s in over)
    return stable >= verify or lost == len(lines)


def commit_choice(
    transaction: Transaction, lease: Lease, chosen: ChosenRows
) -> CommitResult | None:
    """See `Imports.commit_choice`."""
    stream, producer = chosen.stream, lease.key.producer

    # 1 Lock the lease, which is of this stream's import.
    check_lease(transaction, lease)
    if not is_import_of(lease, stream):
        raise Refused(f"fragment {lease.key.fragment} does not choose among the producers of "
                      f"{stream}: take the lease of import/{stream}")  # fmt: skip

    # 2 Commit the rows.
    answer: CommitResult | None = None
    for commit in commits_of(lease, chosen):
        answer = commit_step(transaction, commit)
    line = lock_line(transaction, stream, producer)

    # 3 Note divergences.
    known = {_of(d) for d in divergences(transaction)}
    for divergence in chosen.divergences:
        if _of(divergence) not in known:
            number, now_ms = transaction.next_number(), transaction.store.clock.now_ms
            noted = replace(divergence, number=number, noticed_at_ms=now_ms)
            transaction.put(DIVERGENCES, number, noted)

    # 4 Move how far lines have been compared.
    for compared, at_us in chosen.compared_us.items():
        current_us = transaction.get(COMPARED, (stream, compared))
        further_us = at_us if current_us is None else max(at_us, current_us)
        its = transaction.get(tables.LINES, (stream, compared))
        if its is not None and its.generation > 1 and its.boundary_us is not None:
            further_us = min(further_us, its.boundary_us)  # what was recalled meanwhile was not
        transaction.put(COMPARED, (stream, compared), further_us)

    # 5 End the line.
    if chosen.end_us is not None and line.end_us is None:
        if line.boundary_us != chosen.end_us:
            raise Conflict(f"stream {stream} cannot end at {chosen.end_us} here: read again")
        ended = replace(line, end_us=chosen.end_us, boundary_us=FOREVER_US)
        transaction.put(tables.LINES, (stream, producer), ended)
    return answer


def _of(divergence: Divergence) -> tuple[object, ...]:
    one, other = divergence.one, divergence.other
    return (divergence.stream, divergence.bucket_us, divergence.plan, one.producer, one.version,
            other.producer, other.version)  # fmt: skip
