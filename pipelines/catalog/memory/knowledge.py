"""Knowledge from the in-memory catalog, in the two steps of `knowledge_rows`.

Most of it is unchanged since the last read: values made of rows are rebuilt only for changed
rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from medusa_core.commits import Lane, LeaseKey
from medusa_core.fragments import Fragment
from medusa_core.grid import BEGINNING_US, Range
from medusa_core.knowledge import Knowledge, Limits, RevisedKnowledge, TentativeKnowledge
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer, Segment
from pipelines.catalog.knowledge_rows import (
    Assigned,
    AssignedLines,
    Line,
    OwnedFrom,
    PlannedFrom,
    SegmentAnswer,
    SegmentRequest,
    frontier_knowledge,
    knowledge_of,
    requests_of,
    what_is_there,
    with_input_segments,
)
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.commit import is_tentative
from pipelines.catalog.memory.landing import landed_counts
from pipelines.catalog.memory.lines import lineage_of, sorted_lines
from pipelines.catalog.memory.owners import recalls_of
from pipelines.catalog.memory.recalled import recalls_after, revised_since
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import NEVER, FragmentRow, LeaseRow, LineRow, SegmentRow
from pipelines.catalog.records import Assignment, OwnerLine


def read_knowledge(
    transaction: Transaction,
    participant: Participant,
    fragments: Mapping[str, Fragment],
    limits: Limits,
) -> Knowledge:
    """See `Deployments.read_knowledge`; at many looks nothing has changed but the time."""
    apart = transaction.as_before("corrected apart", _held_apart(transaction))
    fragments = transaction.as_before("fragments", dict(fragments))

    def make() -> Knowledge:
        assigned = read_assigned(transaction, participant, fragments, limits, apart)
        tentative = read_tentative(transaction, assigned, limits)
        revised = read_revised(transaction, assigned, fragments)
        seen = [
            with_input_segments(
                fragment,
                [
                    (request, read_segments(transaction, request, limits))
                    for request in requests_of(fragment, assigned)
                ],
            )
            for fragment in frontier_knowledge(assigned, fragments, tentative, revised)
        ]
        return knowledge_of(participant, assigned, seen, limits)

    stood = (
        fragments,
        apart,
        _paths_ms(transaction),
        transaction.rows(tables.ASSIGNMENTS),
        transaction.rows(tables.OWNERS),
        transaction.rows(tables.RECALLS),
        transaction.rows(tables.FRAGMENTS),
        transaction.rows(tables.STREAMS),
        transaction.rows(tables.BOUNDS),
        transaction.rows(tables.QOS),
        transaction.rows(tables.LINES),
        transaction.rows(tables.BATCHES),
    )
    known = transaction.made_of(("knowledge", participant, limits), stood, make)
    return replace(known, clock_ms=transaction.store.clock.now_ms)


def read_assigned(
    transaction: Transaction,
    participant: Participant,
    fragments: Collection[str],
    limits: Limits,
    apart: Collection[LeaseKey],
) -> AssignedLines:
    """How everything that is assigned to this home stands; `apart` is corrected in its own lane."""
    assigned = tuple(
        replace(found, is_corrected_apart=True) if backlog in apart else found
        for found, backlog in _newest(transaction)
        if found.producer.participant == participant
        and (not found.inputs or found.fragment in fragments)
    )
    streams = {stream for a in assigned for stream in (*a.inputs, *a.outputs)}
    paths_ms = _paths_ms(transaction)
    lines = [
        _line(transaction, line_id, stream, producer, row, paths_ms)
        for line_id, ((stream, producer), row) in enumerate(sorted_lines(transaction))
        if stream in streams
    ]
    landed: dict[int, dict[int, int]] = {}
    for line in lines:
        if line.kind == "source" and line.boundary_us is not None:
            counts = landed_counts(transaction, line.stream, line.producer)
            first = sorted(at_us for at_us in counts if at_us >= line.boundary_us)
            landed[line.line_id] = {
                at_us: counts[at_us] for at_us in first[: limits.buckets_per_step_max + 1]
            }
    return AssignedLines(
        assigned=assigned,
        lines=tuple(lines),
        landed=landed,
        clock_ms=transaction.store.clock.now_ms,
    )


def _line(
    transaction: Transaction,
    line_id: int,
    stream: StreamName,
    producer: Producer,
    row: LineRow,
    paths_ms: Mapping[StreamName, int],
) -> Line:
    """How a line stands; of most nothing has changed since it was last looked at."""
    record = transaction.get(tables.STREAMS, stream)
    assert record is not None, f"a line of {stream} implies the stream"
    declared = transaction.get(tables.BOUNDS, stream)
    bound, lag_ms = declared or (None, 0)
    qos = transaction.get(tables.QOS, stream)
    path_ms = paths_ms.get(stream, 0) if bound else 0

    def make() -> Line:
        newest = [r.segment for r in row.live if r.segment.range.to_us == row.boundary_us]
        return Line(
            line_id=line_id,
            stream=stream,
            producer=producer,
            kind=record.kind,
            width_us=record.width_us,
            origin_us=row.origin_us,
            boundary_us=row.boundary_us,
            promised_us=row.promised_us,
            end_us=row.end_us,
            tentative_us=row.tentative_us,
            lag_ms=lag_ms,
            bound=bound,
            path_ms=path_ms,
            qos=qos,
            lacks=next((s.missing for s in newest if not s.stability.is_final), None),
            revised=max(
                (
                    r.generation
                    for r in recalls_after(transaction, (stream, producer), NEVER)
                    if r.changed
                ),
                default=0,
            )
            if row.generation > 1
            else 0,
        )

    return transaction.made_of(("line", line_id), (row, record, declared, path_ms, qos), make)


def _newest(transaction: Transaction) -> tuple[tuple[Assigned, LeaseKey], ...]:
    """The newest assignments, each with the key of the lease under which it is corrected apart."""
    log, wired = transaction.rows(tables.ASSIGNMENTS), transaction.rows(tables.FRAGMENTS)
    known = transaction.rows(tables.OWNER_RECALLS)
    recalls = transaction.rows(tables.RECALLS)
    owned = transaction.rows(tables.OWNERS)

    def make() -> tuple[tuple[Assigned, LeaseKey], ...]:
        # What a provider has read of a stream that was recalled since is not known here.
        current = {
            key: line
            for key, line in owned.items()
            if recalls_of(recalls, wired[line.fragment]) == known[key]
        }
        return tuple(_newest_of(log, wired, current))

    return transaction.made_of("newest", (log, wired, owned, recalls), make)


def _newest_of(
    log: Mapping[tuple[str, int, int], Assignment],
    wired: Mapping[str, FragmentRow],
    owned: Mapping[tuple[str, int, int], OwnerLine],
) -> Iterator[tuple[Assigned, LeaseKey]]:
    newest: dict[tuple[str, int, int], Assignment] = {}
    plans: dict[tuple[str, int, int], list[PlannedFrom]] = {}
    for (fragment, partition, _), row in sorted(log.items()):
        of = (fragment, partition, row.producer.replica)
        newest[of] = row
        plans.setdefault(of, []).append(PlannedFrom(row.plan, row.from_us))
    for of, row in sorted(newest.items()):
        fragment, partition, _ = of
        wiring = wired[fragment]
        assigned = Assigned(
            fragment=fragment,
            partition=partition,
            producer=row.producer,
            epoch=row.epoch,
            plans=tuple(plans[of]),
            inputs=wiring.inputs,
            outputs=wiring.outputs,
            starts_us=BEGINNING_US if wiring.starts_us is None else wiring.starts_us,
            owners=tuple(
                OwnedFrom(line.owner, line.from_us, line.timeout_ms)
                for (name, part, _), line in sorted(owned.items())
                if (name, part) == (fragment, partition)
            ),
        )
        backlog = LeaseKey(
            fragment=fragment, producer=row.producer, partition=partition, lane=Lane.BACKLOG
        )
        yield assigned, backlog


def _held_apart(transaction: Transaction) -> tuple[LeaseKey, ...]:
    """The leases of the backlog lane that are held now."""
    leases, now_ms = transaction.rows(tables.LEASES), transaction.store.clock.now_ms

    def make() -> list[tuple[LeaseKey, LeaseRow]]:
        return [(key, row) for key, row in leases.items() if key.lane is Lane.BACKLOG]

    known = transaction.made_of("backlog", (leases,), make)
    return tuple(key for key, row in known if row.expires_at_ms > now_ms)


def _paths_ms(transaction: Transaction) -> Mapping[StreamName, int]:
    """What the readers of a stream say that their path costs, the dearest."""
    holds = transaction.rows(tables.HOLDS)

    def make() -> dict[StreamName, int]:
        paths_ms: dict[StreamName, int] = {}
        for row in holds.values():
            hold = row.hold
            paths_ms[hold.stream] = max(paths_ms.get(hold.stream, 0), hold.path_ms)
        return paths_ms

    return transaction.as_before("paths", transaction.made_of("paths_ms", (holds,), make))


def read_tentative(
    transaction: Transaction, assigned: AssignedLines, limits: Limits
) -> list[TentativeKnowledge]:
    """The oldest live tentative rows of the lines that are written here, with their lineage."""
    lines = assigned.tentative_lines()
    if not lines:
        return []
    reach, inputs = what_is_there(assigned, lines)
    by_id = {ln.line_id: ln for ln in assigned.lines}
    found: list[TentativeKnowledge] = []
    for line in lines.values():
        row = transaction.get(tables.LINES, (line.stream, line.producer))
        inputs_ = [by_id[line_id] for line_id in inputs.get(line.line_id, ())]
        tentative = [r for r in row.live if is_tentative(r)] if row else []
        live = [r for r in tentative if _may_be_owed(transaction, r.segment, reach, inputs_)]
        found += [
            TentativeKnowledge(segment=r.segment, reads=lineage_of(transaction, r))
            for r in live[: limits.buckets_per_step_max]
        ]
    return found


def _may_be_owed(
    transaction: Transaction,
    segment: Segment,
    reach: Mapping[StreamName, int],
    inputs: Sequence[Line],
) -> bool:
    """Whether its first instant may be final in every input; see `knowledge_tentative.sql`."""
    at_us = segment.range.from_us
    if any(reach.get(name, at_us + 1) <= at_us for name in segment.missing):
        return False
    for line in inputs:
        row = transaction.get(tables.LINES, (line.stream, line.producer))
        for live in row.live_after(at_us)[:1] if row else ():
            if is_tentative(live) and live.segment.range.from_us <= at_us:
                return False
    return True


def read_revised(
    transaction: Transaction, assigned: AssignedLines, fragments: Mapping[str, Fragment]
) -> list[RevisedKnowledge]:
    """The live final rows of the lines that are written here that read what was revised since."""
    changed: dict[int, dict[StreamName, tuple[Range, ...]]] = {}
    rows: dict[int, SegmentRow] = {}
    kept_us: dict[int, int] = {}
    for found in assigned.read_revised(fragments):
        output, source = found.output, (found.source.stream, found.source.producer)
        line = transaction.get(tables.LINES, (output.stream, output.producer))
        for row in line.live if line else ():
            since = () if is_tentative(row) else revised_since(transaction, row, source)
            if line is not None and since:
                rows[id(row)] = row
                kept_us[id(row)] = BEGINNING_US if line.trimmed_us is None else line.trimmed_us
                changed.setdefault(id(row), {})[source[0]] = since
    parts = {at: rows[at].segment.range for at in rows}
    return [
        RevisedKnowledge(
            segment=rows[at].segment,
            part=Range(max(part.from_us, kept_us[at]), part.to_us),
            changed=changed[at],
        )
        for at, part in sorted(parts.items(), key=lambda item: item[1])
        if kept_us[at] < part.to_us
    ]


def read_segments(
    transaction: Transaction, request: SegmentRequest, limits: Limits
) -> SegmentAnswer:
    """Segments as a step needs them: see `SegmentRequest`."""
    line = transaction.get(tables.LINES, (request.line.stream, request.line.producer))
    taken: list[SegmentRow] = []
    rows = buckets = beyond = 0
    for row in line.live_after(request.from_us) if line else ():
        segment = row.segment
        if segment.range.from_us >= request.need_us:
            beyond += 1
            too_much = (
                rows > limits.records_per_step_max
                or buckets > limits.buckets_per_step_max
                or beyond > limits.buckets_per_step_max
            )
            if too_much or not request.goes_on:
                next_us = segment.range.from_us
                return SegmentAnswer(tuple(r.segment for r in taken), next_us)
            # What windows that reach back read again is no part of the step's limits.
            rows += segment.rows
            buckets += len(segment.buckets)
        taken.append(row)
    return SegmentAnswer(tuple(r.segment for r in taken), None)
