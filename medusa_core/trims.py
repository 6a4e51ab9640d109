"""Trimming: buckets go when no hold needs them, and what keeps them is told with its reason.

Everything of a line before its trim may be gone; a trim never goes back, and never passes a hold
that has not run out, a tentative row, or the boundary (S7).
"""

from __future__ import annotations

from dataclasses import dataclass

from medusa_core.fragments import origin_of
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.knowledge import FragmentKnowledge
from medusa_core.names import StreamName
from medusa_core.segments import SegmentFile

PROGRESS = "progress"
"""The purpose of a hold by a fragment of the home itself: what it has yet to read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """What stops a trim at `from_us`: a hold, or the line itself (`holder` None).

    `purpose` is the hold's, or `tentative` (what is not final is not trimmed) or `boundary` (the
    line has come no further). A hold was placed at `since_ms` of the catalog's clock and runs out
    `limit_ms` later, if it ever does.
    """

    holder: str | None
    purpose: str
    from_us: int
    since_ms: int | None = None
    limit_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """How far a line was trimmed before (`from_us`) and is now, and what went with it.

    `segments` counts rows of the catalog, superseded ones too; `rows` those of live segments.
    `files` are named by nothing any more and may be removed. `has_more`: as much was removed as one
    call may, so ask again. `held_by` is what stopped it before the time asked for.
    """

    from_us: int | None
    trimmed_us: int | None
    segments: int = 0
    rows: int = 0
    files: tuple[SegmentFile, ...] = ()
    has_more: bool = False
    held_by: HeldBack | None = None


def needed_from_us(fragment: FragmentKnowledge) -> dict[StreamName, int]:
    """Where what a fragment has yet to read of each input begins, windows that reach back included.

    FOREVER_US where it will read nothing more, BEGINNING_US where nothing is known yet.
    """
    begins = dict.fromkeys(fragment.inputs, FOREVER_US)

    def want(need: dict[StreamName, Range]) -> None:
        for stream, part in need.items():
            begins[stream] = max(min(begins[stream], part.from_us), BEGINNING_US)

    for tentative in fragment.tentative:
        want(fragment.fragment.needed(tentative.segment.stream, tentative.segment.range))
    outputs = fragment.outputs.values()
    origins = {name: i.origin_us for name, i in fragment.inputs.items()}
    width_us = max(o.width_us for o in outputs)
    next_us = max(min(o.boundary_us for o in outputs), origin_of(origins, width_us))
    if next_us < FOREVER_US:
        # To the end of time: a window that ends in a later bucket may begin before the next one.
        want(fragment.fragment.needed_by_all(Range(next_us, FOREVER_US)))
    return begins
