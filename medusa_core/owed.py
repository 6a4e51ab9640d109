"""What is owed: outputs never computed that are ready, and tentative ones that can be made final.

It has no memory. Nothing remembers a failure; a live tentative row and the frontier are all that
can be owed, so a crash between deciding and doing loses nothing.
"""

from __future__ import annotations

from medusa_core.fragments import end_of, origin_of
from medusa_core.grid import FOREVER_US, Range, floor_us
from medusa_core.knowledge import FragmentKnowledge, InputKnowledge, TentativeKnowledge
from medusa_core.names import StreamName
from medusa_core.segments import Stability


def frontier(fragment: FragmentKnowledge) -> Range | None:
    """The outputs never computed whose every input's boundary has passed, or None.

    All outputs of a fragment advance together: one step computes them. The range ends on the widest
    output's grid, and where all inputs have ended, with the last bucket that can hold a record.
    """
    origins = {name: i.origin_us for name, i in fragment.inputs.items()}
    width_us = max(o.width_us for o in fragment.outputs.values())
    from_us = max(
        min(o.boundary_us for o in fragment.outputs.values()), origin_of(origins, width_us)
    )
    to_us = min(ready_through_us(i) for i in fragment.inputs.values())
    ended_us = ends_at_us(fragment)
    to_us = ended_us if ended_us is not None else floor_us(to_us, width_us)
    to_us = min(to_us, fragment.until_us)
    return Range(from_us, to_us) if from_us < to_us else None


def ready_through_us(input_: InputKnowledge) -> int:
    """Up to where an input is final: its boundary, or for ever once it has ended and closed."""
    if input_.end_us is not None and input_.boundary_us >= input_.end_us:
        return FOREVER_US
    return input_.boundary_us


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
    width_us = max(o.width_us for o in outputs)
    end_us = max(end_of(fragment.fragment, name, ends, width_us) for name in fragment.outputs)
    computed_us = min(o.boundary_us for o in outputs)
    return end_us if computed_us < end_us else computed_us + width_us


def corrections(fragment: FragmentKnowledge) -> tuple[TentativeKnowledge, ...]:
    """The live tentative rows whose every input range is final now, oldest first."""
    owed = [t for t in fragment.tentative if _inputs_are_final(fragment, t)]
    return tuple(sorted(owed, key=lambda t: (t.segment.range, t.segment.stream)))


def _inputs_are_final(fragment: FragmentKnowledge, tentative: TentativeKnowledge) -> bool:
    need = fragment.fragment.needed(tentative.segment.stream, tentative.segment.range)
    return all(is_final(fragment.inputs[name], part) for name, part in need.items())


def is_final(input_: InputKnowledge, part: Range) -> bool:
    """Whether final rows cover the whole of `part` (outside of the stream's life all is empty)."""
    at_us = max(part.from_us, input_.origin_us)
    to_us = part.to_us if input_.end_us is None else min(part.to_us, input_.end_us)
    for segment in input_.segments:
        if segment.range.to_us <= at_us:
            continue
        if segment.range.from_us > at_us or segment.stability is Stability.TENTATIVE:
            break
        at_us = segment.range.to_us
    return at_us >= to_us
