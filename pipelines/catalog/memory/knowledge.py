"""Knowledge from the in-memory catalog, in the two steps of `knowledge_rows`.

Most of it is unchanged since the last read: values made of rows are rebuilt only for changed
rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from medusa_core.commits import Lane, LeaseKey
from medusa_core.fragments import Fragment
from medusa_core.knowledge import Knowledge, Limits, TentativeKnowledge
from medusa_core.names import Participant, StreamName
from medusa_core.segments import Producer, Segment
from pipelines.catalog.knowledge_rows import (
    Assigned,
    Line,
    PlannedFrom,
    SegmentAnswer,
    SegmentRequest,
    Standing,
    first_sight,
    knowledge_of,
    requests_of,
    second_sight,
    what_is_there,
)
from pipelines.catalog.memory import tables
from pipelines.catalog.memory.commit import is_tentative
from pipelines.catalog.memory.landing import landed_counts
from pipelines.catalog.memory.lines import lineage_of, sorted_lines
from pipelines.catalog.memory.store import Transaction
from pipelines.catalog.memory.tables import FragmentRow, LeaseRow, LineRow, SegmentRow
from pipelines.catalog.records import Assignment


def read_knowledge(
    work: Transaction, participant: Participant, fragments: Mapping[str, Fragment], limits: Limits
) -> Knowledge:
    """See `Deployments.read_knowledge`; at many looks nothing has changed but the time."""
    apart = work.as_before("corrected apart", _held_apart(work))
    fragments = work.as_before("fragments", dict(fragments))

    def make() -> Knowledge:
        stands = read_standing(work, participant, fragments, limits, apart)
        tentative = read_tentative(work, stands, limits)
        seen = [
            second_sight(
                fragment,
                [
                    (request, read_segments(work, request, limits))
                    for request in requests_of(fragment, stands)
                ],
            )
            for fragment in first_sight(stands, fragments, tentative)
        ]
        return knowledge_of(participant, stands, seen, limits)

    stood = (
        fragments,
        apart,
        _paths_ms(work),
        work.rows(tables.ASSIGNMENTS),
        work.rows(tables.FRAGMENTS),
        work.rows(tables.STREAMS),
        work.rows(tables.BOUNDS),
        work.rows(tables.LINES),
        work.rows(tables.BATCHES),
    )
    known = work.made_of(("knowledge", participant, limits), stood, make)
    return replace(known, clock_ms=work.store.clock.now_ms)


def read_standing(
    work: Transaction,
    participant: Participant,
    fragments: Collection[str],
    limits: Limits,
    apart: Collection[LeaseKey],
) -> Standing:
    """How everything that is assigned to this home stands; `apart` is corrected in its own lane."""
    assigned = tuple(
        replace(found, is_corrected_apart=True) if backlog in apart else found
        for found, backlog in _newest(work)
        if found.producer.participant == participant
        and (not found.inputs or found.fragment in fragments)
    )
    wanted = {stream for a in assigned for stream in (*a.inputs, *a.outputs)}
    paths_ms = _paths_ms(work)
    lines = [
        _line(work, line_id, stream, producer, row, paths_ms)
        for line_id, ((stream, producer), row) in enumerate(sorted_lines(work))
        if stream in wanted
    ]
    landed: dict[int, dict[int, int]] = {}
    for line in lines:
        if line.kind == "source" and line.boundary_us is not None:
            counts = landed_counts(work, line.stream, line.producer)
            first = sorted(at_us for at_us in counts if at_us >= line.boundary_us)
            landed[line.line_id] = {
                at_us: counts[at_us] for at_us in first[: limits.buckets_per_step_max + 1]
            }
    return Standing(
        assigned=assigned,
        lines=tuple(lines),
        landed=landed,
        clock_ms=work.store.clock.now_ms,
    )


def _line(
    work: Transaction,
    line_id: int,
    stream: StreamName,
    producer: Producer,
    row: LineRow,
    paths_ms: Mapping[StreamName, int],
) -> Line:
    """How a line stands; of most nothing has changed since it was last looked at."""
    record = work.get(tables.STREAMS, stream)
    assert record is not None, f"a line of {stream} implies the stream"
    declared = work.get(tables.BOUNDS, stream)
    bound, lag_ms = declared or (None, 0)
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
            lacks=next((s.missing for s in newest if not s.stability.is_final), None),
        )

    return work.made_of(("line", line_id), (row, record, declared, path_ms), make)


def _newest(work: Transaction) -> tuple[tuple[Assigned, LeaseKey], ...]:
    """The newest assignments, each with the key of the lease under which it is corrected apart."""
    log, wired = work.rows(tables.ASSIGNMENTS), work.rows(tables.FRAGMENTS)
    return work.made_of("newest", (log, wired), lambda: tuple(_newest_of(log, wired)))


def _newest_of(
    log: Mapping[tuple[str, int, int], Assignment], wired: Mapping[str, FragmentRow]
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
        )
        backlog = LeaseKey(
            fragment=fragment, producer=row.producer, partition=partition, lane=Lane.BACKLOG
        )
        yield assigned, backlog


def _held_apart(work: Transaction) -> tuple[LeaseKey, ...]:
    """The leases of the backlog lane that are held now."""
    leases, now_ms = work.rows(tables.LEASES), work.store.clock.now_ms

    def make() -> list[tuple[LeaseKey, LeaseRow]]:
        return [(key, row) for key, row in leases.items() if key.lane is Lane.BACKLOG]

    known = work.made_of("backlog", (leases,), make)
    return tuple(key for key, row in known if row.expires_at_ms > now_ms)


def _paths_ms(work: Transaction) -> Mapping[StreamName, int]:
    """What the readers of a stream say that their path costs, the dearest."""
    holds = work.rows(tables.HOLDS)

    def make() -> dict[StreamName, int]:
        paths_ms: dict[StreamName, int] = {}
        for row in holds.values():
            hold = row.hold
            paths_ms[hold.stream] = max(paths_ms.get(hold.stream, 0), hold.path_ms)
        return paths_ms

    return work.as_before("paths", work.made_of("paths_ms", (holds,), make))


def read_tentative(
    work: Transaction, standing: Standing, limits: Limits
) -> list[TentativeKnowledge]:
    """The oldest live tentative rows of the lines that are written here, with their lineage."""
    written = standing.computed
    lines = {
        ln.line_id: ln
        for ln in standing.lines
        if ln.tentative_us is not None and (ln.stream, ln.producer) in written
    }
    if not lines:
        return []
    reach, inputs = what_is_there(standing, lines)
    by_id = {ln.line_id: ln for ln in standing.lines}
    found: list[TentativeKnowledge] = []
    for line in lines.values():
        row = work.get(tables.LINES, (line.stream, line.producer))
        inputs_ = [by_id[line_id] for line_id in inputs.get(line.line_id, ())]
        tentative = [r for r in row.live if is_tentative(r)] if row else []
        live = [r for r in tentative if _may_be_owed(work, r.segment, reach, inputs_)]
        found += [
            TentativeKnowledge(segment=r.segment, reads=lineage_of(work, r))
            for r in live[: limits.buckets_per_step_max]
        ]
    return found


def _may_be_owed(
    work: Transaction, segment: Segment, reach: Mapping[StreamName, int], inputs: Sequence[Line]
) -> bool:
    """Whether its first instant may be final in every input; see `knowledge_tentative.sql`."""
    at_us = segment.range.from_us
    if any(reach.get(name, at_us + 1) <= at_us for name in segment.missing):
        return False
    for line in inputs:
        row = work.get(tables.LINES, (line.stream, line.producer))
        for live in row.live_after(at_us)[:1] if row else ():
            if is_tentative(live) and live.segment.range.from_us <= at_us:
                return False
    return True


def read_segments(work: Transaction, request: SegmentRequest, limits: Limits) -> SegmentAnswer:
    """Segments as a step needs them: see `SegmentRequest`."""
    line = work.get(tables.LINES, (request.line.stream, request.line.producer))
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
