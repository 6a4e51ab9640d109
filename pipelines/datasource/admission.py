"""The size of one micro-batch: a number of records or non-empty buckets, at least one bucket.

A bucket is not cut, as in Medusa's own steps. The next buckets are kept in memory as a count for
each non-empty bucket of the stable prefix, read once, because stable rows do not change. They are
read in stretches that double, until the batch is full: a backlog of years costs no batch more
than its own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from medusa_core.grid import Range
from medusa_core.segments import Segment

Segments = Callable[[Range], Sequence[Segment]]

LOOKED_AT_FIRST = 1_024
"""How many buckets, empty ones too, the first look of a batch is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much a micro-batch may take at most; None is any amount."""

    records_max: int | None = None
    buckets_max: int | None = None

    def admits(self, records: int, buckets: int) -> bool:
        """Whether so much may be taken."""
        return (self.records_max is None or records <= self.records_max) and (
            self.buckets_max is None or buckets <= self.buckets_max
        )


@dataclass
class Ahead:
    """The non-empty buckets of a stream between two event times: starts and records."""

    width_us: int
    from_us: int | None = None
    through_us: int | None = None
    starts: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)

    def reach(self, from_us: int, through_us: int, segments: Segments) -> None:
        """Know all buckets with rows in [from_us, through_us), asking for what is not known yet."""
        if self.from_us is None or self.through_us is None or from_us < self.from_us:
            self.starts, self.records = [], []
            self.from_us = self.through_us = from_us
        if self.through_us < through_us:
            self._add(Range(self.through_us, through_us), segments)
            self.through_us = through_us
        # The bucket that `from_us` lies in counts whole: it may be cut there.
        gone = bisect_right(self.starts, from_us - self.width_us)
        del self.starts[:gone], self.records[:gone]
        self.from_us = from_us

    def filled_us(self, limit: Limit, from_us: int, through_us: int, segments: Segments) -> int:
        """Where a batch that begins at `from_us` and may take so much ends, `through_us` at most.

        Asks for no more of what comes than that needs, and about as much again.
        """
        buckets = LOOKED_AT_FIRST
        while True:
            seen_us = min(from_us + buckets * self.width_us, through_us)
            self.reach(from_us, seen_us, segments)
            end_us = self.end_us(limit, seen_us)
            if end_us < seen_us or seen_us == through_us:
                return end_us
            buckets *= 2

    def _add(self, part: Range, segments: Segments) -> None:
        known_to = self.starts[-1] if self.starts else None
        found = sorted(
            (at, digest.rows)
            for segment in segments(part)
            for at, digest in segment.buckets.items()
            if at < part.to_us and at + self.width_us > part.from_us
        )
        for at, records in found:
            if known_to is None or at > known_to:
                self.starts.append(at)
                self.records.append(records)

    def end_us(self, limit: Limit, through_us: int) -> int:
        """Where a batch that may take so much ends: before the first bucket that is too much."""
        records = 0
        for taken, at in enumerate(self.starts):
            if at >= through_us:
                break
            records += self.records[taken]
            if taken and not limit.admits(records, taken + 1):
                return at
        return through_us
