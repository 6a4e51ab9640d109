"""Answers without some inputs: which output buckets lack one, and until when they wait for it.

The next bucket lacks an input whose live rows do not reach as far as the bucket needs. It waits
until the time that the bound leaves is used up, counted from when the inputs that are there could
have been used. Nothing is remembered: that the bucket before was answered without the very same
input, which has not moved since, shows in how far that input reaches.

An input that moves, but is always behind by so long, has not failed: it is waited for from when the
first bucket that lacks it could have been answered. So a wait that is long enough for it ends the
tentative answers, although each bucket before was answered without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medusa_core import owed
from medusa_core.bounds import Bound, Policy
from medusa_core.decisions import OutputAge
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range, ceil_us, floor_us
from medusa_core.knowledge import FragmentKnowledge, InputKnowledge
from medusa_core.names import StreamName

BUCKETS_LOOKED_AT_MAX = 1_024

AGES_PER_BOUND = 10
"""Buckets whose ages differ by no more than this part of the bound are reported as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialOutput:
    """A run of output buckets that lack the same inputs, and when the first is due without them.

    `due_ms` is by the home's clock, None if it is never due (suspended, or a box waits);
    `fresh_ms` is when the inputs that are there could have been used. `was_blocked`: the bucket
    before was answered without the same inputs, none of which has moved since. `waited_for` are
    those of the missing inputs without which rows would be wrong.
    """

    range: Range
    missing: tuple[StreamName, ...]
    fresh_ms: int
    due_ms: int | None
    was_blocked: bool
    waited_for: tuple[StreamName, ...] = ()


def partial(fragment: FragmentKnowledge, bound: Bound, wait_ms: int) -> PartialOutput | None:
    """The buckets at the frontier that lack an input, where another input is there; else None.

    An output begins once all its inputs have: before, nobody knows where.
    """
    if any(o.has_ended for o in fragment.outputs.values()):
        return None
    if any(i.origin_us == BEGINNING_US for i in fragment.inputs.values()):
        return None
    width_us = fragment.width_us
    first = first_lacking(fragment)
    if first is None or first.to_us > fragment.until_us:
        return None
    missing = lacking(fragment, first)
    fresh_ms = fresh(fragment, first)
    if fresh_ms is None:
        return None
    there = [i for name, i in fragment.inputs.items() if name not in missing]
    to_us = floor_us(min(_reach_us(i, width_us) for i in there), width_us)
    to_us = max(min(to_us, fragment.until_us), first.to_us)
    was_blocked = _was_blocked(fragment, first, missing)
    due_ms: int | None = fresh_ms + wait_ms
    waited_for = tuple(name for name in missing if name in fragment.fragment.waited_for)
    if waited_for or bound.during_failure is Policy.SUSPEND:
        due_ms = None
    elif bound.during_failure is Policy.PROCESS and was_blocked:
        missed = first_missed(fragment, missing)
        since_ms = None if missed is None else fresh(fragment, missed)
        due_ms = fresh_ms if since_ms is None else max(fresh_ms, since_ms + wait_ms)
    return PartialOutput(
        range=Range(first.from_us, to_us),
        missing=missing,
        fresh_ms=fresh_ms,
        due_ms=due_ms,
        was_blocked=was_blocked,
        waited_for=waited_for,
    )


def first_lacking(fragment: FragmentKnowledge) -> Range | None:
    """The next output buckets, up to the first that lacks an input; None if none does.

    Where windows are longer than buckets there are some in which no window ends: they need nothing,
    and are answered together with the one in which the next window does.
    """
    from_us, width_us = owed.start_us(fragment), fragment.width_us
    reach_us = max(_reach_us(i, width_us) for i in fragment.inputs.values())
    most = (floor_us(reach_us, width_us) - from_us) // width_us

    def lacks(buckets: int) -> bool:
        return bool(lacking(fragment, Range(from_us, from_us + buckets * width_us)))

    low, high = 0, 1
    while high <= most and not lacks(high):
        low, high = high, 2 * high
    if high > most:
        if most <= low or not lacks(most):
            return None
        high = most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if lacks(middle) else (middle, high)
    return Range(from_us, from_us + high * width_us)


def _reach_us(input_: InputKnowledge, width_us: int) -> int:
    """How far an input is worth an answer: its boundary, or the bucket in which it ends."""
    if owed.ready_through_us(input_) == FOREVER_US:
        return ceil_us(input_.end_us or 0, width_us)
    return input_.boundary_us


def lacking(fragment: FragmentKnowledge, part: Range) -> tuple[StreamName, ...]:
    """The inputs that do not reach as far as `part` of the outputs needs."""
    need = fragment.fragment.needed_by_all(part)
    return tuple(
        name
        for name, needed in need.items()
        if owed.ready_through_us(fragment.inputs[name]) < needed.to_us
    )


def fresh(fragment: FragmentKnowledge, part: Range) -> int | None:
    """When `part` of the outputs could have been computed from the inputs that are there.

    By the home's clock: the oldest of them, each from when its last needed segment was fresh, and
    later by as much as the input that is due last is due later. None if nothing is there. An input
    that a Join needs less far than `part` counts once it has come as far as the others.
    """
    found: list[int] = []
    for name, needed in fragment.fragment.needed_by_all(part).items():
        input_ = fragment.inputs[name]
        needed = Range(needed.from_us, needed.to_us + fragment.fragment.delay_us(name))
        if owed.ready_through_us(input_) >= needed.to_us:
            times = [s.fresh_ms for s in input_.overlapping(needed.widened(input_.width_us))]
            found += [max(times) - input_.lag_ms] if times else []
    return min(found) + fragment.lag_ms if found else None


def gathered_ms(fragment: FragmentKnowledge, part: Range) -> int | None:
    """How long it took until all inputs of `part` were here, from when the first was fresh.

    None if nothing is there.
    """
    fresh_ms = fresh(fragment, part)
    arrived_ms = [
        segment.arrived_ms
        for name, needed in fragment.fragment.needed_by_all(part).items()
        for segment in fragment.inputs[name].overlapping(needed)
    ]
    return None if fresh_ms is None or not arrived_ms else max(max(arrived_ms) - fresh_ms, 0)


def ages_of(fragment: FragmentKnowledge, part: Range, bound: Bound) -> tuple[OutputAge, ...]:
    """The pieces of a range whose ages differ little, each as old as the oldest in it."""
    pieces: list[OutputAge] = []
    from_us, oldest, newest = part.from_us, None, None
    for bucket in buckets_of(fragment, part):
        fresh_ms = fresh(fragment, bucket)
        if fresh_ms is None:
            continue  # no window ends there
        low = fresh_ms if oldest is None else min(oldest, fresh_ms)
        high = fresh_ms if newest is None else max(newest, fresh_ms)
        if oldest is not None and high - low > bound.bound_ms // AGES_PER_BOUND:
            pieces.append(OutputAge(Range(from_us, bucket.from_us), oldest))
            from_us, low, high = bucket.from_us, fresh_ms, fresh_ms
        oldest, newest = low, high
    if oldest is None:
        return ()
    return (*pieces, OutputAge(Range(from_us, part.to_us), oldest))


def oldest_fresh(fragment: FragmentKnowledge, part: Range) -> int | None:
    """When the first of a range's buckets could have been computed; a step is as old as that."""
    found = (fresh(fragment, bucket) for bucket in buckets_of(fragment, part))
    return min((fresh_ms for fresh_ms in found if fresh_ms is not None), default=None)


def buckets_of(fragment: FragmentKnowledge, part: Range) -> Iterator[Range]:
    """The output buckets of a range, as many as are worth looking at one by one."""
    width_us = fragment.width_us
    for number in range(BUCKETS_LOOKED_AT_MAX):
        at_us = part.from_us + number * width_us
        if at_us >= part.to_us:
            return
        yield Range(at_us, min(at_us + width_us, part.to_us))


def first_missed(fragment: FragmentKnowledge, missing: tuple[StreamName, ...]) -> Range | None:
    """The first bucket that was answered although it lacks these inputs even now.

    None if there is no such bucket, or none near to where the inputs end.
    """
    width_us, start_us = fragment.width_us, owed.start_us(fragment)
    reached_us = max(owed.allows_through_us(fragment, name) for name in missing)
    from_us = max(floor_us(reached_us, width_us), fragment.origin_us)
    for number in range(BUCKETS_LOOKED_AT_MAX):
        at_us = from_us + number * width_us
        if at_us >= start_us:
            return None
        # Where windows are longer than buckets, no window may end in this one.
        if set(missing) <= set(lacking(fragment, Range(at_us, at_us + width_us))):
            return Range(at_us, at_us + width_us)
    return None


def _was_blocked(
    fragment: FragmentKnowledge, first: Range, missing: tuple[StreamName, ...]
) -> bool:
    """Whether the outputs before, as far back as they needed these inputs, still lack them."""
    begins_us = fragment.origin_us
    length_us = first.to_us - first.from_us
    while True:
        from_us = max(first.from_us - length_us, begins_us)
        if from_us >= first.from_us:
            return False
        before = Range(from_us, first.from_us)
        if set(missing) <= set(fragment.fragment.needed_by_all(before)):
            return set(missing) <= set(lacking(fragment, before))
        if from_us == begins_us:
            return False
        length_us *= 2  # no window ended there
