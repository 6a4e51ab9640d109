"""Owed results: outputs that are ready and not computed, tentative ones that can become final, and
final ones whose inputs were revised.

The rule has no memory of failures: the frontier, a live tentative row, and a live final row that
read what was revised since are all that can be owed, so a crash between deciding and doing loses
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medusa_core.emitted_windows import emitting
from medusa_core.fragments import end_of
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range, floor_us
from medusa_core.knowledge import FragmentKnowledge, InputKnowledge, TentativeKnowledge
from medusa_core.names import StreamName
from medusa_core.revisions import owed_again
from medusa_core.segments import Segment, Stability, content_of


def start_us(fragment: FragmentKnowledge) -> int:
    """Where the next output bucket begins."""
    return max(min(o.boundary_us for o in fragment.outputs.values()), fragment.origin_us)


def frontier(fragment: FragmentKnowledge) -> Range | None:
    """The outputs never computed for which every input's boundary has come far enough, or None.

    All outputs of a fragment advance together: one step computes them. The range ends on the widest
    output's grid, and where all inputs have ended, with the last bucket that can hold a record.
    """
    from_us = start_us(fragment)
    to_us = min(allows_through_us(fragment, name) for name in fragment.inputs)
    ended_us = ends_at_us(fragment)
    to_us = ended_us if ended_us is not None else floor_us(to_us, fragment.width_us)
    to_us = min(to_us, fragment.until_us)
    return Range(from_us, to_us) if from_us < to_us else None


def ready_through_us(input_: InputKnowledge) -> int:
    """Up to where an input is there: its boundary, or for ever once it has ended and closed."""
    if input_.end_us is not None and input_.boundary_us >= input_.end_us:
        return FOREVER_US
    return input_.boundary_us


def allows_through_us(fragment: FragmentKnowledge, input_: StreamName) -> int:
    """Up to where outputs lack nothing of an input; a Join may need it less far than they reach."""
    ready_us = ready_through_us(fragment.inputs[input_])
    if ready_us in (BEGINNING_US, FOREVER_US):
        return ready_us
    return ready_us + fragment.fragment.delay_us(input_)


def ends_at_us(fragment: FragmentKnowledge) -> int | None:
    """Where the outputs end, once every input has ended and is closed to its end; else None.

    Outputs that reach that far already, because they were computed before the end was known, end
    with one more bucket, an empty one: something must be committed to say so.
    """
    outputs = fragment.outputs.values()
    if all(o.has_ended for o in outputs):
        return None
    if any(ready_through_us(i) != FOREVER_US for i in fragment.inputs.values()):
        return None
    ends: dict[StreamName, int] = {n: i.end_us or 0 for n, i in fragment.inputs.items()}
    width_us = fragment.width_us
    end_us = max(end_of(fragment.fragment, name, ends, width_us) for name in fragment.outputs)
    computed_us = max(min(o.boundary_us for o in outputs), fragment.starts_us)
    return end_us if computed_us < end_us else computed_us + width_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """Outputs of one range that can be made final together: tentative ones, or final ones
    (`revised`) that are computed again.

    `is_unchanged`: the inputs of tentative ones, now final, hold what they were computed from, so
    the outputs stand as they are (early cutoff).
    """

    range: Range
    tentative: tuple[TentativeKnowledge, ...]
    is_unchanged: bool
    revised: tuple[Segment, ...] = ()

    @property
    def segments(self) -> tuple[Segment, ...]:
        """What they take the place of."""
        return (*(t.segment for t in self.tentative), *self.revised)

    @property
    def outputs(self) -> tuple[StreamName, ...]:
        """Which outputs, by name."""
        return tuple(segment.stream for segment in self.segments)


def corrections(fragment: FragmentKnowledge) -> Iterator[Correction]:
    """The live tentative rows whose every input range is final now, oldest first, by range."""
    found: dict[Range, list[TentativeKnowledge]] = {}
    for tentative in fragment.tentative:
        if _inputs_are_final(fragment, tentative):
            found.setdefault(tentative.segment.range, []).append(tentative)
    for part in sorted(found):
        rows = sorted(found[part], key=lambda t: t.segment.stream)
        unchanged = all(_is_unchanged(fragment, t) for t in rows)
        yield Correction(range=part, tentative=tuple(rows), is_unchanged=unchanged)


def revisions(fragment: FragmentKnowledge) -> Iterator[Correction]:
    """The buckets of final rows that read what was revised since, oldest first, by range.

    Not those that read something tentative now, or something that is trimmed.
    """
    found: dict[Range, list[Segment]] = {}
    for revised in fragment.revised:
        for bucket in owed_again(fragment, revised):
            if _needs_what_is_final(fragment, revised.segment.stream, bucket):
                found.setdefault(bucket, []).append(revised.segment)
    for bucket in sorted(found):
        segments = tuple(sorted(found[bucket], key=lambda s: s.stream))
        yield Correction(range=bucket, tentative=(), is_unchanged=False, revised=segments)


def _inputs_are_final(fragment: FragmentKnowledge, tentative: TentativeKnowledge) -> bool:
    return _needs_what_is_final(fragment, tentative.segment.stream, tentative.segment.range)


def _needs_what_is_final(fragment: FragmentKnowledge, output: StreamName, part: Range) -> bool:
    need = fragment.fragment.needed(output, part)
    return all(is_final(fragment.inputs[name], range_) for name, range_ in need.items())


def is_final(input_: InputKnowledge, part: Range) -> bool:
    """Whether final rows cover the whole of `part` (outside of the stream's life all is empty)."""
    at_us = max(part.from_us, input_.origin_us)
    to_us = part.to_us if input_.end_us is None else min(part.to_us, input_.end_us)
    for segment in input_.overlapping(Range(at_us, to_us)) if at_us < to_us else ():
        if segment.range.from_us > at_us or segment.stability is Stability.TENTATIVE:
            break
        at_us = segment.range.to_us
    return at_us >= to_us


def _is_unchanged(fragment: FragmentKnowledge, tentative: TentativeKnowledge) -> bool:
    """Whether every input holds now what the lineage read, and nothing where it read nothing."""
    segment = tentative.segment
    if emitting(fragment.fragment) and any(i.end_us is not None for i in fragment.inputs.values()):
        return False  # Windows without records may have ended where that was not known yet.
    for name, need in fragment.fragment.needed(segment.stream, segment.range).items():
        input_ = fragment.inputs[name]
        ranges = need.widened(input_.width_us)
        reads = sorted((r for r in tentative.reads if r.input == name), key=lambda r: r.range)
        for read in reads:
            now = content_of(input_.overlapping(read.range), read.range)
            if read.content != now or read.drop_rate:
                return False
        for hole in ranges.without([read.range for read in reads]):
            if any(s.within(hole) for s in input_.overlapping(hole)):
                return False
    return True
