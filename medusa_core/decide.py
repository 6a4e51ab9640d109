"""The one entry: what a participant does next, as data with a reason in numbers.

`decide` is pure. Its list has three readers: apply, explain and simulate; none of them decides
anything. Decisions come in the order in which they should be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile

from medusa_core import owed
from medusa_core.commits import Cause
from medusa_core.frozen import freeze
from medusa_core.grid import Range, ceil_us, floor_us
from medusa_core.knowledge import (
    FragmentKnowledge,
    InputKnowledge,
    Knowledge,
    LandingKnowledge,
    Limits,
)
from medusa_core.names import StreamName
from medusa_core.segments import Read, Segment, Stability


@dataclass(frozen=True, slots=True)
class Because:
    """Why, in a phrase and in the numbers that it was decided by."""

    reason: str
    numbers: Mapping[str, int]

    def __post_init__(self) -> None:
        freeze(self, "numbers")

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} {value}" for name, value in self.numbers.items())
        return f"{self.reason} ({numbers})" if numbers else self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseBuckets:
    """Make landed records of a run of buckets a stable segment of the source's stream."""

    landing: LandingKnowledge
    range: Range
    ends: bool
    because: Because


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeStep:
    """Compute a run of output buckets of a fragment from named input versions."""

    fragment: FragmentKnowledge
    range: Range
    outputs: tuple[StreamName, ...]
    reads: tuple[Read, ...]
    stability: Stability
    cause: Cause
    ends: bool
    because: Because


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Nothing to do for a fragment or a source now."""

    of: str
    because: Because


Decision = CloseBuckets | ComputeStep | Wait


def decide(knowledge: Knowledge, now_ms: int) -> list[Decision]:
    """What to do now, most urgent first: steps, then corrections, then closing.

    `now_ms` is the catalog's clock; steps of recorded input have no deadline and do not look at it.
    """
    decisions: list[Decision] = []
    for fragment in knowledge.fragments:
        decisions.extend(decide_fragment(fragment, knowledge.limits))
    decisions.extend(decide_landing(landing, knowledge.limits) for landing in knowledge.landings)
    return decisions


def decide_fragment(fragment: FragmentKnowledge, limits: Limits) -> Iterator[Decision]:
    """The next step at the frontier, then the corrections owed; or one Wait."""
    ready = owed.frontier(fragment)
    step = frontier_step(fragment, ready, limits) if ready else None
    if step:
        yield step
    corrected = 0
    for tentative in owed.corrections(fragment):
        corrected += 1
        stream, part = tentative.segment.stream, tentative.segment.range
        yield ComputeStep(
            fragment=fragment,
            range=part,
            outputs=(stream,),
            reads=tuple(reads_of(fragment, (stream,), part)),
            stability=Stability.STABLE,
            cause=Cause.CORRECTION,
            ends=False,
            because=Because("its inputs are final now", {"version": tentative.segment.version}),
        )
    if not step and not corrected:
        yield Wait(of=fragment.fragment.id, because=_why_wait(fragment))


def frontier_step(fragment: FragmentKnowledge, ready: Range, limits: Limits) -> ComputeStep | None:
    """The largest step at the frontier within the limits; at least one output bucket."""
    width_us = max(o.width_us for o in fragment.outputs.values())
    need = fragment.fragment.needed_by_all(ready)
    counts: dict[int, int] = {}
    to_us = ready.to_us
    for name, part in need.items():
        input_ = fragment.inputs[name]
        if input_.known_through_us < part.to_us:
            to_us = min(to_us, floor_us(input_.known_through_us, width_us))
        for segment in input_.segments:
            for at_us, digest in segment.within(part).items():
                if at_us >= ready.from_us:
                    counts[at_us] = counts.get(at_us, 0) + digest.rows
    to_us = cut_us(ready.from_us, to_us, counts, width_us, limits)
    if to_us <= ready.from_us:
        return None
    part = Range(ready.from_us, to_us)
    outputs = tuple(fragment.outputs)
    reads = tuple(reads_of(fragment, outputs, part))
    records = sum(n for at_us, n in counts.items() if at_us < to_us)
    return ComputeStep(
        fragment=fragment,
        range=part,
        outputs=outputs,
        reads=reads,
        stability=_stability_of(fragment, reads),
        cause=Cause.NORMAL,
        ends=to_us == owed.ends_at_us(fragment),
        because=Because(
            "the boundary of every input has passed it",
            {
                "ready_through_us": ready.to_us,
                "records": records,
                "buckets": sum(1 for at_us in counts if at_us < to_us),
                "records_per_step_max": limits.records_per_step_max,
            },
        ),
    )


def cut_us(
    from_us: int, to_us: int, counts: Mapping[int, int], width_us: int, limits: Limits
) -> int:
    """Where a step from `from_us` ends: at `to_us`, or before the limits are passed.

    `counts` maps bucket start to records from `from_us` on: what windows that reach back read again
    is not counted, else a window of more buckets than the limit would advance bucket by bucket. The
    cut is on the grid of `width_us` and leaves at least one bucket.
    """
    records = buckets = 0
    for at_us in sorted(counts):
        if at_us >= to_us:
            break
        records, buckets = records + counts[at_us], buckets + 1
        if records > limits.records_per_step_max or buckets > limits.buckets_per_step_max:
            cut = max(floor_us(at_us, width_us), ceil_us(from_us + 1, width_us))
            return min(cut, to_us)
    return to_us


def reads_of(
    fragment: FragmentKnowledge, outputs: Iterable[StreamName], part: Range
) -> Iterator[Read]:
    """The lineage of a range of outputs: per input segment the part that is needed of it."""
    for output in outputs:
        for name, need in fragment.fragment.needed(output, part).items():
            input_ = fragment.inputs[name]
            wanted = need.widened(input_.width_us)
            for segment in overlapping(input_, wanted):
                overlap = segment.range.intersection(wanted)
                assert overlap is not None
                yield Read(
                    output=output,
                    input=name,
                    producer=segment.producer,
                    range=overlap,
                    version=segment.version,
                )


def overlapping(input_: InputKnowledge, part: Range) -> Iterator[Segment]:
    """The live segments of an input that share an instant with `part`, in order."""
    return (s for s in input_.segments if s.range.overlaps(part))


def _stability_of(fragment: FragmentKnowledge, reads: Iterable[Read]) -> Stability:
    """Tentative if a tentative segment was read, else stable; never sticky."""
    tentative = {
        (s.stream, s.producer, s.version)
        for i in fragment.inputs.values()
        for s in i.segments
        if s.stability is Stability.TENTATIVE
    }
    if any((r.input, r.producer, r.version) in tentative for r in reads):
        return Stability.TENTATIVE
    return Stability.STABLE


def _why_wait(fragment: FragmentKnowledge) -> Because:
    if all(o.has_ended for o in fragment.outputs.values()):
        return Because("its outputs have ended", {})
    last = min(fragment.inputs.values(), key=lambda i: i.boundary_us)
    done_us = min(o.boundary_us for o in fragment.outputs.values())
    return Because(
        f"the boundary of {last.stream} has not passed the next bucket",
        {"boundary_us": last.boundary_us, "computed_us": done_us},
    )


def decide_landing(landing: LandingKnowledge, limits: Limits) -> CloseBuckets | Wait:
    """Close the buckets that the source's boundary has passed, within the limits of a step."""
    ended = landing.end_us is not None and landing.boundary_us >= landing.end_us
    to_us = (landing.end_us or 0) if ended else floor_us(landing.boundary_us, landing.width_us)
    to_us = min(to_us, landing.known_through_us, landing.until_us)
    counts = {at: n for at, n in landing.counts.items() if at >= landing.closed_us}
    to_us = cut_us(landing.closed_us, to_us, counts, landing.width_us, limits)
    if to_us <= landing.closed_us:
        has_closed_all = ended and landing.closed_us == landing.end_us
        return Wait(
            of=landing.stream,
            because=Because(
                "the source has ended and all of it is closed"
                if has_closed_all
                else "the source has promised no further bucket",
                {"closed_us": landing.closed_us, "boundary_us": landing.boundary_us},
            ),
        )
    inside = list(takewhile(lambda at: at < to_us, sorted(counts)))
    return CloseBuckets(
        landing=landing,
        range=Range(landing.closed_us, to_us),
        ends=ended and to_us == landing.end_us,
        because=Because(
            "the source's boundary has passed it",
            {
                "boundary_us": landing.boundary_us,
                "records": sum(counts[at] for at in inside),
                "buckets": len(inside),
            },
        ),
    )


def explain(decisions: Iterable[Decision]) -> list[str]:
    """One line for each decision: what and why."""
    return [_explain(decision) for decision in decisions]


def _explain(decision: Decision) -> str:
    match decision:
        case CloseBuckets():
            what = f"close {decision.landing.stream} {decision.range}"
        case ComputeStep():
            names = ", ".join(decision.outputs)
            what = f"compute {names} {decision.range} as {decision.stability.value}"
        case Wait():
            what = f"wait: {decision.of}"
    return f"{what}: {decision.because}"
