"""Trims: buckets that no hold needs are removed; what keeps the others is shown with its reason.

Everything of a line before its trim may be removed; a trim never moves back, and never passes a
hold that has not expired, a tentative row, or the boundary (S7).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from medusa_core.fragments import Fragment
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.names import PlanId, StreamName
from medusa_core.revisions import touched
from medusa_core.segments import SegmentFile

PROGRESS = "progress"
"""The purpose of a hold by a fragment of the home itself: what it has yet to read."""

CHOICE = "choice"
"""What stops the trim of a producer's line: of what lies behind, it is not settled what is read."""

Planned = Mapping[PlanId, Mapping[str, Fragment] | None]
"""Plan -> fragment's id -> the fragment as that plan has it; None if nobody can read the plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimLimit:
    """What stops a trim at `from_us`: a hold, or the line itself (`holder` None).

    `purpose` is the hold's, or `tentative` (what is not final is not trimmed), `boundary` (the line
    has come no further) or `choice` (what is read of several producers is not final further on). A
    hold was placed at `since_ms` of the catalog's clock and runs out `limit_ms` later, if it ever
    does.
    """

    holder: str | None
    purpose: str
    from_us: int
    since_ms: int | None = None
    limit_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimResult:
    """How far a line was trimmed before (`from_us`) and is now, and what went with it.

    `segments` counts rows of the catalog, superseded ones too; `rows` those of live segments.
    `files` are named by nothing any more and may be removed. `has_more`: as much was removed as one
    call may, so call it again. `held_by` is what stopped it before the requested time.
    """

    from_us: int | None
    trimmed_us: int | None
    segments: int = 0
    rows: int = 0
    files: tuple[SegmentFile, ...] = ()
    has_more: bool = False
    held_by: TrimLimit | None = None


def shapes_owed(known: FragmentKnowledge, planned: Planned) -> tuple[Fragment, ...] | None:
    """The fragment as each plan has it under which something may be left to compute.

    That is the plan in force; where another is to follow, or something tentative or revised is to
    be computed again, it is every plan that ever was assigned. None if one of them is not known.
    """
    is_final = all(o.tentative_us is None for o in known.outputs.values())
    is_settled = known.until_us == FOREVER_US and is_final and not known.revised
    shapes: list[Fragment] = []
    for plan in (known.plan,) if is_settled else {known.plan, *planned}:
        fragments = planned.get(plan)
        if fragments is None:
            return None
        if known.fragment.id in fragments:
            shapes.append(fragments[known.fragment.id])
    return tuple(shapes)


def needed_from_us(
    known: FragmentKnowledge, shapes: Iterable[Fragment] | None = None
) -> dict[StreamName, int]:
    """Where what a fragment has yet to read of each input begins, windows that reach back included.

    `shapes` is the fragment as each plan of what is left to compute has it (default: as it is
    known); what any of them reads is needed. FOREVER_US where it will read nothing more,
    BEGINNING_US where nothing is known yet.
    """
    begins = dict.fromkeys(known.inputs, FOREVER_US)

    def want(need: Mapping[StreamName, int]) -> None:
        for stream, from_us in need.items():
            begins[stream] = min(begins.get(stream, FOREVER_US), from_us)

    outputs = known.outputs.values()
    next_us = max(min(o.boundary_us for o in outputs), known.origin_us)
    for shape in (known.fragment,) if shapes is None else shapes:
        for output in outputs:
            at_us = output.tentative_us
            if at_us is not None and output.stream in shape.outputs:
                # What is tentative behind it may read further back: no window may end in the first.
                want(_begins(shape.needed(output.stream, Range(at_us, FOREVER_US))))
        for revised in known.revised:
            stream = revised.segment.stream
            if stream not in shape.outputs:
                continue
            # Not what else the segment was computed from: it will not be read again.
            width_us = known.outputs[stream].width_us
            for bucket in touched(shape, stream, width_us, revised.part, revised.changed):
                want(_begins(shape.needed(stream, bucket)))
        if next_us < FOREVER_US:
            want(begins_us(shape, next_us))
    return begins


def begins_us(fragment: Fragment, from_us: int) -> dict[StreamName, int]:
    """From when on the buckets from `from_us` to the end of time read each input."""
    # To the end of time: a window that ends in a later bucket may begin before the next one.
    return _begins(fragment.needed_by_all(Range(from_us, FOREVER_US)))


def earliest_bucket_us(
    fragment: Fragment, from_us: int, width_us: int, kept_from_us: Mapping[StreamName, int]
) -> int:
    """The first bucket from `from_us` on whose inputs are there, and those of all behind it.

    `kept_from_us` says from when on an input is; one that it does not name is there from its
    beginning. `from_us` lies on the grid of `width_us`, and so does the answer.
    """

    def missing_us(at_us: int) -> int:
        begins = begins_us(fragment, at_us)
        return max((kept_us - begins.get(stream, kept_us)
                    for stream, kept_us in kept_from_us.items()), default=0)  # fmt: skip

    if missing_us(from_us) <= 0:
        return from_us
    low, high = 0, 1
    while missing_us(from_us + high * width_us) > 0:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if missing_us(from_us + middle * width_us) > 0 else (low, middle)
    return from_us + high * width_us


def _begins(need: Mapping[StreamName, Range]) -> dict[StreamName, int]:
    return {stream: max(part.from_us, BEGINNING_US) for stream, part in need.items()}
