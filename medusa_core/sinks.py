"""Sinks: destinations of final rows, the position of each, and the next run of buckets it takes.

A sink delivers the stable prefix of a stream into a target outside of Medusa. The target keeps
its own record, written in one piece with the rows; the catalog holds a copy of it, which moves
the sink's hold. So after a delivery that was cut short anywhere the target is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medusa_core.digest import Digest
from medusa_core.grid import FOREVER_US, Range
from medusa_core.names import StreamName, Version
from medusa_core.segments import Segment, Stability, digest_over

HOLD_PURPOSE = "delivery"
"""The purpose of a sink's hold: what it has yet to deliver is not trimmed."""


def holder_of(sink: str) -> str:
    """The holder of a sink's hold."""
    return f"sink:{sink}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRecord:
    """A sink as it stands in the catalog of the home `home` (its incarnation).

    `document` is its declaration (JSON). It begins at `from_us` and has delivered before
    `through_us` (None: nothing yet is known), at most up to version `version` of the line: so many
    `rows`, without `lost_us` of declared gaps. `problem` is why it does not go on, if it does not.
    """

    home: str
    stream: StreamName
    name: str
    document: str
    from_us: int
    through_us: int | None = None
    version: Version | None = None
    rows: int = 0
    lost_us: int = 0
    problem: str | None = None
    delivered_at_ms: int | None = None

    @property
    def holds_from_us(self) -> int:
        """From when on it needs the stream's buckets."""
        return self.from_us if self.through_us is None else self.through_us


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryState:
    """How far a target has come: what its own record says."""

    through_us: int
    version: Version
    rows: int
    lost_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRange:
    """A run of whole buckets to deliver in one piece, from segments that are all final.

    `version` is the greatest that is read; `lost_us` how much of it is declared gaps.
    """

    range: Range
    segments: tuple[Segment, ...]
    version: Version
    digest: Digest
    lost_us: int

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.digest.rows


def final_through_us(segments: Sequence[Segment], from_us: int) -> int:
    """Up to where segments, in event-time order, are final from `from_us` on without a hole."""
    at_us = from_us
    for segment in segments:
        if segment.range.to_us <= at_us:
            continue
        if segment.range.from_us > at_us or not segment.stability.is_final:
            break
        at_us = segment.range.to_us
    return at_us


def run_of(segments: Sequence[Segment], part: Range) -> DeliveryRange:
    """The run of a range that the segments cover, all final there."""
    assert final_through_us(segments, part.from_us) >= part.to_us, "the range is not final"
    inside = tuple(s for s in segments if s.range.overlaps(part))
    gaps = (s.range.intersection(part) for s in inside if s.stability is Stability.GAP)
    return DeliveryRange(
        range=part,
        segments=inside,
        version=Version(max(s.version for s in inside)),
        digest=digest_over(inside, part),
        lost_us=sum(gap.to_us - gap.from_us for gap in gaps if gap is not None),
    )


def next_run(
    segments: Sequence[Segment], part: Range, width_us: int, rows_max: int
) -> DeliveryRange | None:
    """The first buckets of a range, as far as they are final, with at most `rows_max` rows.

    Never less than one bucket; None if the first one is not final.
    """
    through_us = min(final_through_us(segments, part.from_us), part.to_us)
    if through_us <= part.from_us:
        return None
    rows = 0
    for segment in segments:
        for at_us, digest in sorted(segment.within(Range(part.from_us, through_us)).items()):
            if rows and rows + digest.rows > rows_max:
                return run_of(segments, Range(part.from_us, at_us))
            rows += digest.rows
            if rows >= rows_max:
                return run_of(segments, Range(part.from_us, min(at_us + width_us, through_us)))
    return run_of(segments, Range(part.from_us, through_us))


def due_us(stable_us: int, every_us: int | None, *, has_ended: bool) -> int:
    """Up to where a sink delivers that waits for whole multiples of `every_us` of event time."""
    if every_us is None or has_ended or stable_us == FOREVER_US:
        return stable_us
    return stable_us - stable_us % every_us
