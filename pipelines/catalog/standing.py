"""From rows to knowledge: what both catalogs do alike once they have read their tables.

Reading goes in two strides, because only a fragment itself knows which input range its next output
bucket needs: first how the lines stand, then exactly the segments that the next step and the
corrections owed could use. Nothing here grows with the history behind the frontier.

Limit: an input is read from one line, this home's own if it has one; choosing among several
producers per range is the import's work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from medusa_core import owed
from medusa_core.fragments import Fragment
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.knowledge import (
    FragmentKnowledge,
    InputKnowledge,
    Knowledge,
    LandingKnowledge,
    Limits,
    OutputKnowledge,
    TentativeKnowledge,
)
from medusa_core.names import Epoch, Participant, PlanId, StreamName
from medusa_core.segments import Producer, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How what one producer wrote of one stream stands; `line_id` is the catalog's own name."""

    line_id: int
    stream: StreamName
    producer: Producer
    kind: str
    width_us: int
    origin_us: int | None
    boundary_us: int | None
    promised_us: int | None
    end_us: int | None
    has_tentative: bool

    @property
    def has_ended(self) -> bool:
        """Whether its live rows reach its end."""
        return self.boundary_us == FOREVER_US


@dataclass(frozen=True, slots=True)
class PlannedFrom:
    """A line of the assignment log: a plan, and the first bucket it is for (None: the origin)."""

    plan: PlanId
    from_us: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The newest assignment of a fragment to this home; `plans` are those of the whole log."""

    fragment: str
    partition: int
    producer: Producer
    epoch: Epoch
    plans: tuple[PlannedFrom, ...]
    inputs: tuple[StreamName, ...]
    outputs: tuple[StreamName, ...]

    def in_force(self, reached_us: int | None) -> tuple[PlanId, int]:
        """The plan of the bucket at which the outputs stand, and where another one begins.

        The last line of the log that is for it counts; before anything was written, that is the
        last one from the origin on. An epoch is for every line: who may write is another matter.
        """
        at_us = BEGINNING_US if reached_us is None else reached_us
        starts = [BEGINNING_US if p.from_us is None else p.from_us for p in self.plans]
        begun = [at for at, start_us in enumerate(starts) if start_us <= at_us]
        now = max(begun, default=0)
        later = [start_us for start_us in starts[now + 1 :] if start_us > at_us]
        return self.plans[now].plan, min(later, default=FOREVER_US)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The first stride: assignments, lines, and landed records per bucket not yet closed by line.

    `landed` reaches one non-empty bucket further than a step may take, to show that there is more.
    """

    assigned: tuple[Assigned, ...]
    lines: tuple[Line, ...]
    landed: Mapping[int, Mapping[int, int]]
    clock_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRequest:
    """The second stride: live segments of a line that end behind `from_us` and begin before
    `need_us`; if `goes_on`, those behind too, until a step could take no more."""

    line: Line
    from_us: int
    need_us: int
    goes_on: bool


@dataclass(frozen=True, slots=True)
class SegmentAnswer:
    """Segments in order, and where the next one begins if the list was cut."""

    segments: tuple[Segment, ...] = ()
    next_from_us: int | None = None


def line_of(lines: Iterable[Line], stream: StreamName, producer: Producer) -> Line:
    """The line a fragment reads: its own producer's, else this home's, else the first by name."""

    def preference(line: Line) -> tuple[bool, bool, Producer]:
        own = line.producer.participant == producer.participant
        return (line.producer != producer, not own, line.producer)

    return min((line for line in lines if line.stream == stream), key=preference)


def first_sight(
    standing: Standing, fragments: Mapping[str, Fragment], tentative: Sequence[TentativeKnowledge]
) -> tuple[FragmentKnowledge, ...]:
    """The fragments assigned here, each after those it reads, as yet without input segments."""
    seen: list[FragmentKnowledge] = []
    for assigned in _in_order([a for a in standing.assigned if a.fragment in fragments]):
        lines = [ln for ln in standing.lines if ln.producer == assigned.producer]
        own = {ln.stream: ln for ln in lines if ln.stream in assigned.outputs}
        readable = {ln.stream for ln in standing.lines}
        if not set(assigned.inputs) <= readable or not set(assigned.outputs) <= set(own):
            continue  # an input that nobody is assigned to write has no line to wait for
        reached = [own[s].boundary_us for s in assigned.outputs]
        begun = [at_us for at_us in reached if at_us is not None]
        plan, until_us = assigned.in_force(min(begun) if len(begun) == len(reached) else None)
        seen.append(
            FragmentKnowledge(
                fragment=fragments[assigned.fragment],
                plan=plan,
                until_us=until_us,
                producer=assigned.producer,
                epoch=assigned.epoch,
                partition=assigned.partition,
                inputs={s: _input(standing, s, assigned.producer) for s in assigned.inputs},
                outputs={s: _output(own[s]) for s in assigned.outputs},
                tentative=tuple(
                    t
                    for t in tentative
                    if t.segment.stream in own and t.segment.producer == assigned.producer
                ),
            )
        )
    return tuple(seen)


def requests_of(fragment: FragmentKnowledge, standing: Standing) -> list[SegmentRequest]:
    """Which input segments the next step and the corrections of a fragment could use."""
    wanted: list[SegmentRequest] = []

    def want(stream: StreamName, from_us: int, need_us: int, *, goes_on: bool) -> None:
        line = line_of(standing.lines, stream, fragment.producer)
        wanted.append(SegmentRequest(line=line, from_us=from_us, need_us=need_us, goes_on=goes_on))

    ready = owed.frontier(fragment)
    if ready is not None:
        width_us = max(o.width_us for o in fragment.outputs.values())
        first = Range(ready.from_us, ready.from_us + width_us)
        first_need = fragment.fragment.needed_by_all(first)
        for stream, part in fragment.fragment.needed_by_all(ready).items():
            need_us = max(first.to_us, first_need[stream].to_us if stream in first_need else 0)
            want(stream, min(part.from_us, first.from_us), need_us, goes_on=True)
    owed_ranges: dict[StreamName, list[Range]] = {}
    for tentative in fragment.tentative:
        need = fragment.fragment.needed(tentative.segment.stream, tentative.segment.range)
        for stream, part in need.items():
            owed_ranges.setdefault(stream, []).append(part)
    for stream, parts in owed_ranges.items():
        for part in _merged(parts):
            want(stream, part.from_us, part.to_us, goes_on=False)
    return wanted


def second_sight(
    fragment: FragmentKnowledge, answers: Sequence[tuple[SegmentRequest, SegmentAnswer]]
) -> FragmentKnowledge:
    """The fragment with the segments that its requests were answered."""
    inputs: dict[StreamName, InputKnowledge] = {}
    for stream, seen in fragment.inputs.items():
        mine = [(r, a) for r, a in answers if r.line.stream == stream]
        found = {s.range.from_us: s for _, answer in mine for s in answer.segments}
        ends = [a.next_from_us for r, a in mine if r.goes_on and a.next_from_us is not None]
        inputs[stream] = replace(
            seen,
            segments=tuple(found[at_us] for at_us in sorted(found)),
            known_through_us=min(ends, default=FOREVER_US),
        )
    return replace(fragment, inputs=inputs)


def landings_of(standing: Standing, limits: Limits) -> tuple[LandingKnowledge, ...]:
    """The sources that this home lands, by name."""
    found: list[LandingKnowledge] = []
    for assigned in standing.assigned:
        for line in standing.lines:
            if line.stream not in assigned.outputs or line.producer != assigned.producer:
                continue
            if line.kind != "source":
                continue
            counts = dict(standing.landed.get(line.line_id, {}))
            through_us = FOREVER_US if line.origin_us is not None else BEGINNING_US
            if len(counts) > limits.buckets_per_step_max:
                through_us = max(counts)
                del counts[through_us]
            closed_us = line.end_us if line.has_ended else line.boundary_us
            plan, until_us = assigned.in_force(line.boundary_us)
            found.append(
                LandingKnowledge(
                    stream=line.stream,
                    producer=line.producer,
                    epoch=assigned.epoch,
                    plan=plan,
                    until_us=until_us,
                    width_us=line.width_us,
                    closed_us=BEGINNING_US if closed_us is None else closed_us,
                    boundary_us=BEGINNING_US if line.promised_us is None else line.promised_us,
                    end_us=line.end_us,
                    counts=counts,
                    known_through_us=through_us,
                )
            )
    return tuple(sorted(found, key=lambda known: (known.stream, known.producer)))


def knowledge_of(participant: Participant, standing: Standing,
                 fragments: Iterable[FragmentKnowledge], limits: Limits) -> Knowledge:  # fmt: skip
    """All of it."""
    return Knowledge(
        participant=participant,
        landings=landings_of(standing, limits),
        fragments=tuple(fragments),
        limits=limits,
        clock_ms=standing.clock_ms,
    )


def _input(standing: Standing, stream: StreamName, producer: Producer) -> InputKnowledge:
    line = line_of(standing.lines, stream, producer)
    return InputKnowledge(
        stream=stream,
        width_us=line.width_us,
        origin_us=BEGINNING_US if line.origin_us is None else line.origin_us,
        boundary_us=BEGINNING_US if line.boundary_us is None else line.boundary_us,
        end_us=line.end_us,
        segments=(),
        known_through_us=FOREVER_US,
    )


def _output(line: Line) -> OutputKnowledge:
    return OutputKnowledge(
        stream=line.stream,
        width_us=line.width_us,
        boundary_us=BEGINNING_US if line.boundary_us is None else line.boundary_us,
        has_ended=line.has_ended,
    )


def _merged(parts: Iterable[Range]) -> list[Range]:
    merged: list[Range] = []
    for part in sorted(parts):
        if merged and part.from_us <= merged[-1].to_us:
            merged[-1] = merged[-1].hull(part)
        else:
            merged.append(part)
    return merged


def _in_order(assigned: Sequence[Assigned]) -> list[Assigned]:
    """Each after those whose outputs it reads; by name where nothing else decides."""
    waiting = sorted(assigned, key=lambda a: (a.fragment, a.partition, a.producer))
    order: list[Assigned] = []
    while waiting:
        written = {stream for a in waiting for stream in a.outputs}
        ready = [a for a in waiting if not set(a.inputs) & written] or waiting
        order += ready
        waiting = [a for a in waiting if a not in ready]
    return order
