"""S2 and S3 over the live rows of one line: no two rows overlap, and final rows remain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from medusa_core.grid import Range
from medusa_core.segments import Segment, Stability
from pipelines.catalog.memory.tables import SegmentRow
from pipelines.simulation.faults.events import Violation


def check_no_overlap(where: str, rows: tuple[SegmentRow, ...]) -> None:
    """S3: live rows of a line, in order, share no instant."""
    for before, after in pairwise(rows):
        if after.segment.range.from_us < before.segment.range.to_us:
            raise Violation(
                "S3", f"live rows {before.segment.range} and {after.segment.range} of {where}"
            )


def check_final(
    where: str, old: tuple[SegmentRow, ...], new: tuple[SegmentRow, ...], trimmed_us: int | None,
    revised: Sequence[Range] = (),
) -> None:  # fmt: skip
    """S2: what was final and not trimmed is there, bucket for bucket, under one plan and label.

    S13: of what was revised only that it is final again.
    """
    still = {id(row) for row in new}
    for row in old:
        segment = row.segment
        if id(row) in still or segment.stability is Stability.TENTATIVE:
            continue
        if trimmed_us is not None and segment.range.to_us <= trimmed_us:
            continue
        over = [r.segment for r in new if r.segment.range.overlaps(segment.range)]
        alike = all((s.stability, s.plan) == (segment.stability, segment.plan) for s in over)
        same = all(
            {at: d for s in over for at, d in s.within(part).items()} == dict(segment.within(part))
            for part in segment.range.without(revised)
        )
        if not alike or not same or not _covered(segment.range, over):
            law = "S13" if revised else "S2"
            raise Violation(law, f"{segment.stability.value} {segment.range} of {where} changed")


def _covered(part: Range, segments: list[Segment]) -> bool:
    at_us = part.from_us
    for segment in segments:
        if segment.range.from_us <= at_us:
            at_us = max(at_us, segment.range.to_us)
    return at_us >= part.to_us
