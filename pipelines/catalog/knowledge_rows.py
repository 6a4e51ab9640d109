"""From rows to knowledge: the part that both catalogs share once they have read their tables.

Reading takes two steps, because only a fragment itself knows which input range its next output
bucket needs: first the state of the lines, then exactly the segments that the next step and the
owed corrections could use. Nothing here grows with the history behind the frontier.

An input is read from one line: where a stream has several producers, from the import's line,
which holds this home's choice among theirs (`import_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from medusa_core import owed
from medusa_core.bounds import Bound
from medusa_core.drops.utility import Qos
from medusa_core.fragments import Fragment, move_of
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range, floor_us, merged_ranges
from medusa_core.knowledge import (
    FragmentKnowledge,
    InputKnowledge,
    Knowledge,
    LandingKnowledge,
    Limits,
    OutputKnowledge,
    ProviderKnowledge,
    RevisedKnowledge,
    TentativeKnowledge,
)
from medusa_core.names import Epoch, Participant, PlanId, StreamName
from medusa_core.partial import first_lacking, first_missed, lacking
from medusa_core.revisions import owed_again
from medusa_core.segments import Producer, Segment, reading_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How what one producer wrote of one stream stands; `line_id` is the catalog's own name.

    `bound`, `lag_ms`, `path_ms`, `lacks` and `qos`: see `OutputKnowledge` and `InputKnowledge`.
    `revised`: the newest generation that a revision with a changed bucket began; 0: none.
    """

    line_id: int
    stream: StreamName
    producer: Producer
    kind: str
    width_us: int
    origin_us: int | None
    boundary_us: int | None
    promised_us: int | None
    end_us: int | None
    tentative_us: int | None
    lag_ms: int = 0
    bound: Bound | None = None
    path_ms: int = 0
    lacks: tuple[StreamName, ...] | None = None
    qos: Qos | None = None
    revised: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether its live rows reach its end."""
        return self.boundary_us == FOREVER_US


@dataclass(frozen=True, slots=True)
class PlannedFrom:
    """A line of the assignment log: a plan, and the first bucket it is for (None: the origin)."""

    plan: PlanId
    from_us: int | None


@dataclass(frozen=True, slots=True)
class OwnedFrom:
    """A line of the log of owners: who owns a fragment's buckets, and from which one on."""

    owner: Producer
    from_us: int
    timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """The newest assignment of a fragment to this home; `plans` are those of the whole log.

    `is_corrected_apart`: the lease of its backlog lane is held. `starts_us` is the first bucket
    that is computed, BEGINNING_US for that of the inputs' origin. `owners` are the newest lines of
    the log of owners, oldest first.
    """

    fragment: str
    partition: int
    producer: Producer
    epoch: Epoch
    plans: tuple[PlannedFrom, ...]
    inputs: tuple[StreamName, ...]
    outputs: tuple[StreamName, ...]
    is_corrected_apart: bool = False
    starts_us: int = BEGINNING_US
    owners: tuple[OwnedFrom, ...] = ()

    def provider(self, reached_us: int) -> ProviderKnowledge | None:
        """Who owns the bucket at which the outputs stand, or a later one, if that is not this home.

        The last line of the log that is for a bucket counts.
        """
        begun = [at for at, line in enumerate(self.owners) if line.from_us <= reached_us]
        later = self.owners[max(begun, default=-1) + 1 :]
        next_line = min(later, key=lambda line: line.from_us, default=None)
        now = self.owners[begun[-1]] if begun else None
        until_us = FOREVER_US if next_line is None else next_line.from_us
        if now is None or now.owner == self.producer:
            now, until_us = next_line, FOREVER_US
        if now is None or now.owner == self.producer:
            return None
        part = Range(now.from_us, until_us)
        return ProviderKnowledge(producer=now.owner, range=part, timeout_ms=now.timeout_ms)

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


@dataclass(frozen=True, slots=True)
class RevisedInput:
    """A line that is computed here from a revised one: by how much what a row needs of it begins
    before the row, at most, and ends before it, at least. `fragment` says it exactly for rows of
    the plan that is asked for; `plan` is the newest that is assigned."""

    output: Line
    source: Line
    back_us: int
    delay_us: int
    fragment: Fragment
    plan: PlanId


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignedLines:
    """The first stride: assignments, lines, and landed records per bucket not yet closed by line.

    `landed` reaches one non-empty bucket further than a step may take, to show that there is more.
    `moved` are the lines that are computed here for payers.
    """

    assigned: tuple[Assigned, ...]
    lines: tuple[Line, ...]
    landed: Mapping[int, Mapping[int, int]]
    clock_ms: int
    of_stream: Mapping[StreamName, Sequence[Line]] = field(init=False, compare=False, repr=False)
    moved: Set[tuple[StreamName, Producer]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        found: dict[StreamName, list[Line]] = {}
        for line in self.lines:
            found.setdefault(line.stream, []).append(line)
        object.__setattr__(self, "of_stream", found)
        moved = (a for a in self.assigned if move_of(a.fragment) is not None)
        lines = frozenset((stream, a.producer) for a in moved for stream in a.outputs)
        object.__setattr__(self, "moved", lines)

    @property
    def computed(self) -> set[tuple[StreamName, Producer]]:
        """The lines that are computed here; an import's line is not, but chosen."""
        return {
            (stream, a.producer)
            for a in self.assigned
            if not a.producer.is_import
            for stream in a.outputs
        }

    def tentative_lines(self) -> dict[int, Line]:
        """The computed lines that have tentative rows, by id."""
        computed = self.computed
        return {
            line.line_id: line
            for line in self.lines
            if line.tentative_us is not None and (line.stream, line.producer) in computed
        }

    def read_revised(self, fragments: Mapping[str, Fragment]) -> tuple[RevisedInput, ...]:
        """The lines that are computed here from a line that was revised, with how far they reach
        back."""
        found: list[RevisedInput] = []
        for assigned in self.assigned:
            fragment = fragments.get(assigned.fragment)
            if fragment is None or assigned.producer.is_import:
                continue
            read = [s for s in assigned.inputs if s in self.of_stream]
            inputs = [line_of(self, s, assigned.producer, assigned.fragment) for s in read]
            revised = [line for line in inputs if line.revised]
            for output in self.written_by(assigned).values() if revised else ():
                if output.stream not in fragment.outputs:
                    continue
                reaches = fragment.reaches(output.stream)
                for line in revised:
                    if line.stream in reaches:
                        back_us, delay_us = reaches[line.stream]
                        # A box that can fail needs what lies in the range of its own rows, too.
                        back_us, delay_us = max(back_us, 0), min(delay_us, 0)
                        plan = assigned.plans[-1].plan
                        found.append(RevisedInput(output, line, back_us, delay_us, fragment, plan))
        return tuple(found)

    def written_by(self, assigned: Assigned) -> dict[StreamName, Line]:
        """The lines that an assignment's fragment writes."""
        return {
            line.stream: line
            for stream in assigned.outputs
            for line in self.of_stream.get(stream, ())
            if line.producer == assigned.producer
        }


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


def line_of(assigned: AssignedLines, stream: StreamName, producer: Producer, fragment: str) -> Line:
    """The line a fragment reads: what this home has chosen among several producers, else its own
    producer's, else this home's, else the first by name.

    One that is computed for a payer reads the payer's line; what is computed for one is read by
    nothing else here.
    """
    lines = assigned.of_stream[stream]
    if len(lines) == 1:
        return lines[0]
    moved = move_of(fragment)
    if moved is not None:
        lines = [line for line in lines if line.producer == Producer(moved[0].payer)] or lines
    lines = [line for line in lines if (stream, line.producer) not in assigned.moved] or lines

    def preference(line: Line) -> tuple[bool, bool, bool, Producer]:
        is_not_chosen, is_not_own, by = reading_order(line.producer, producer.participant)
        return (is_not_chosen, by != producer, is_not_own, by)

    return min(lines, key=preference)


def frontier_knowledge(
    assigned_lines: AssignedLines,
    fragments: Mapping[str, Fragment],
    tentative: Sequence[TentativeKnowledge],
    revised: Sequence[RevisedKnowledge] = (),
) -> tuple[FragmentKnowledge, ...]:
    """The fragments assigned here, each after those it reads, as yet without input segments."""
    seen: list[FragmentKnowledge] = []
    for assigned in _in_order([a for a in assigned_lines.assigned if a.fragment in fragments]):
        own = assigned_lines.written_by(assigned)
        has_inputs = all(stream in assigned_lines.of_stream for stream in assigned.inputs)
        if not has_inputs or not set(assigned.outputs) <= set(own):
            continue  # an input that nobody is assigned to write has no line to wait for
        reached = [own[s].boundary_us for s in assigned.outputs]
        begun = [at_us for at_us in reached if at_us is not None]
        computed_us = min(begun) if len(begun) == len(reached) else BEGINNING_US
        plan, until_us = assigned.in_force(min(begun) if len(begun) == len(reached) else None)
        seen.append(
            FragmentKnowledge(
                fragment=fragments[assigned.fragment],
                plan=plan,
                until_us=until_us,
                producer=assigned.producer,
                epoch=assigned.epoch,
                partition=assigned.partition,
                inputs={
                    s: _input(assigned_lines, s, assigned.producer, assigned.fragment)
                    for s in assigned.inputs
                },
                outputs={s: _output(own[s]) for s in assigned.outputs},
                tentative=tuple(
                    t
                    for t in tentative
                    if t.segment.stream in own and t.segment.producer == assigned.producer
                ),
                revised=tuple(
                    r
                    for r in revised
                    if r.segment.stream in own and r.segment.producer == assigned.producer
                ),
                is_corrected_apart=assigned.is_corrected_apart,
                starts_us=assigned.starts_us,
                provider=assigned.provider(computed_us),
            )
        )
    return tuple(seen)


def requests_of(fragment: FragmentKnowledge, assigned: AssignedLines) -> list[SegmentRequest]:
    """Which input segments the next step and the corrections of a fragment could use."""
    requests: list[SegmentRequest] = []

    def want(stream: StreamName, from_us: int, need_us: int, *, goes_on: bool) -> None:
        line = line_of(assigned, stream, fragment.producer, fragment.fragment.id)
        requests.append(
            SegmentRequest(line=line, from_us=from_us, need_us=need_us, goes_on=goes_on)
        )

    ready = owed.frontier(fragment) or _may_be_answered(fragment)
    if ready is not None:
        first = Range(ready.from_us, ready.from_us + fragment.width_us)
        first_need = fragment.fragment.needed_by_all(first)
        for stream, part in fragment.fragment.needed_by_all(ready).items():
            need_us = max(first.to_us, first_need[stream].to_us if stream in first_need else 0)
            want(stream, min(part.from_us, first.from_us), need_us, goes_on=True)
        if (missed := _first_missed(fragment)) is not None:
            for stream, part in fragment.fragment.needed_by_all(missed).items():
                want(stream, part.from_us, part.to_us, goes_on=False)
    owed_ranges: dict[StreamName, list[Range]] = {}
    for tentative in fragment.tentative:
        need = fragment.fragment.needed(tentative.segment.stream, tentative.segment.range)
        for stream, part in need.items():
            owed_ranges.setdefault(stream, []).append(part)
    for revised in fragment.revised:
        for bucket in owed_again(fragment, revised):
            need = fragment.fragment.needed(revised.segment.stream, bucket)
            for stream, part in need.items():
                owed_ranges.setdefault(stream, []).append(part)
    for stream, parts in owed_ranges.items():
        for part in merged_ranges(parts):
            want(stream, part.from_us, part.to_us, goes_on=False)
    return [*requests, *_requests_of_provider(fragment, assigned, ready)]


def _requests_of_provider(
    fragment: FragmentKnowledge, assigned: AssignedLines, ready: Range | None
) -> Iterator[SegmentRequest]:
    """Which rows of a provider could be adopted: at the frontier, and over what is owed."""
    provider = fragment.provider
    if provider is None:
        return
    for output in fragment.outputs:
        lines = (x for x in assigned.of_stream[output] if x.producer == provider.producer)
        for line in lines:
            if ready is not None:
                yield SegmentRequest(
                    line=line, from_us=ready.from_us, need_us=ready.from_us, goes_on=True
                )
            for tentative in fragment.tentative:
                if tentative.segment.stream == output:
                    part = tentative.segment.range
                    yield SegmentRequest(
                        line=line, from_us=part.from_us, need_us=part.to_us, goes_on=False
                    )


def _may_be_answered(fragment: FragmentKnowledge) -> Range | None:
    """The outputs that could be answered without an input, if a bound is promised."""
    if fragment.bound is None or BEGINNING_US in {i.origin_us for i in fragment.inputs.values()}:
        return None
    from_us, width_us = owed.start_us(fragment), fragment.width_us
    to_us = max(
        i.boundary_us if i.boundary_us != FOREVER_US else i.end_us or 0
        for i in fragment.inputs.values()
    )
    to_us = floor_us(to_us, width_us)
    return Range(from_us, to_us) if from_us < to_us else None


def _first_missed(fragment: FragmentKnowledge) -> Range | None:
    """The bucket from which on a missing input is waited for, if one was answered before."""
    if fragment.bound is None or BEGINNING_US in {i.origin_us for i in fragment.inputs.values()}:
        return None
    first = first_lacking(fragment)
    missing = () if first is None else lacking(fragment, first)
    return first_missed(fragment, missing) if missing else None


def with_input_segments(
    fragment: FragmentKnowledge, answers: Sequence[tuple[SegmentRequest, SegmentAnswer]]
) -> FragmentKnowledge:
    """The fragment with the segments that its requests were answered."""
    if not answers:
        return fragment
    provider = fragment.provider
    if provider is not None:
        of_provider = [(r, a) for r, a in answers if r.line.producer == provider.producer
                       and r.line.stream in fragment.outputs]  # fmt: skip
        provider = replace(
            provider,
            segments={
                output: _in_one_order(a for r, a in of_provider if r.line.stream == output)
                for output in fragment.outputs
            },
        )
    inputs: dict[StreamName, InputKnowledge] = {}
    for stream, seen in fragment.inputs.items():
        mine = [(r, a) for r, a in answers if r.line.stream == stream]
        ends = [a.next_from_us for r, a in mine if r.goes_on and a.next_from_us is not None]
        inputs[stream] = replace(
            seen,
            segments=_in_one_order(answer for _, answer in mine),
            known_through_us=min(ends, default=FOREVER_US),
        )
    return replace(fragment, inputs=inputs, provider=provider)


def _in_one_order(answers: Iterable[SegmentAnswer]) -> tuple[Segment, ...]:
    found = {s.range.from_us: s for answer in answers for s in answer.segments}
    return tuple(found[at_us] for at_us in sorted(found))


def what_is_there(
    assigned_lines: AssignedLines, line_ids: Iterable[int]
) -> tuple[dict[StreamName, int], dict[int, list[int]]]:
    """How far each input stream reaches here; and for each line the lines it is computed from."""
    lines = {line.line_id: line for line in assigned_lines.lines}
    known = {line.stream for line in assigned_lines.lines}
    reach: dict[StreamName, int] = {}
    inputs: dict[int, list[int]] = {}
    for assigned in assigned_lines.assigned:
        read = [
            line_of(assigned_lines, s, assigned.producer, assigned.fragment)
            for s in assigned.inputs
            if s in known
        ]
        for line in read:
            reached_us = BEGINNING_US if line.boundary_us is None else line.boundary_us
            reach[line.stream] = max(reach.get(line.stream, BEGINNING_US), reached_us)
        for line_id in line_ids:
            written = lines[line_id]
            if written.stream in assigned.outputs and written.producer == assigned.producer:
                inputs[line_id] = [line.line_id for line in read]
    return reach, inputs


def landings_of(assigned_lines: AssignedLines, limits: Limits) -> tuple[LandingKnowledge, ...]:
    """The sources that this home lands, by name."""
    found: list[LandingKnowledge] = []
    for assigned in assigned_lines.assigned:
        for line in assigned_lines.written_by(assigned).values():
            if line.kind != "source" or line.producer.is_import:
                continue
            counts = dict(assigned_lines.landed.get(line.line_id, {}))
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


def knowledge_of(participant: Participant, assigned: AssignedLines,
                 fragments: Iterable[FragmentKnowledge], limits: Limits) -> Knowledge:  # fmt: skip
    """All of it."""
    return Knowledge(
        participant=participant,
        landings=landings_of(assigned, limits),
        fragments=tuple(fragments),
        limits=limits,
        clock_ms=assigned.clock_ms,
    )


def _input(
    assigned: AssignedLines, stream: StreamName, producer: Producer, fragment: str
) -> InputKnowledge:
    line = line_of(assigned, stream, producer, fragment)
    return InputKnowledge(
        stream=stream,
        width_us=line.width_us,
        origin_us=BEGINNING_US if line.origin_us is None else line.origin_us,
        boundary_us=BEGINNING_US if line.boundary_us is None else line.boundary_us,
        end_us=line.end_us,
        segments=(),
        known_through_us=FOREVER_US,
        lag_ms=line.lag_ms,
    )


def _output(line: Line) -> OutputKnowledge:
    return OutputKnowledge(
        stream=line.stream,
        width_us=line.width_us,
        boundary_us=BEGINNING_US if line.boundary_us is None else line.boundary_us,
        has_ended=line.has_ended,
        bound=line.bound,
        path_ms=line.path_ms,
        tentative_us=line.tentative_us,
        lacks=line.lacks,
        qos=line.qos,
    )


def _in_order(assigned: Sequence[Assigned]) -> list[Assigned]:
    """Each after those whose outputs it reads; by name where nothing else decides."""
    waiting = sorted(assigned, key=lambda a: (a.fragment, a.partition, a.producer))
    order: list[Assigned] = []
    while waiting:
        written = {stream for a in waiting for stream in a.outputs}
        ready = [a for a in waiting if not written.intersection(a.inputs)] or waiting
        order += ready
        done = set(map(id, ready))
        waiting = [a for a in waiting if id(a) not in done]
    return order
