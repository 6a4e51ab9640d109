"""Segments cut into Spark partitions: by files, of about equal size.

A file is the unit: it is read whole, for its hash, before a row of it is given. It may serve
several segments, and hold rows of others; a partition names the ranges that it reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heapreplace

from pyspark.sql.datasource import InputPartition

from medusa_core.errors import Unavailable
from medusa_core.grid import Range
from medusa_core.names import Participant, StreamName, Version
from medusa_core.segments import Segment, SegmentFile, Stability
from pipelines.storage.stable_rows import stable_through_us

SMALL_BYTES, LARGE_BYTES = 2 * 2**20, 32 * 2**20
SMALL_PARTITIONS_MAX = 64
"""Up to so many partitions are small, so that many cores have work; beyond that they grow."""
OPENING_BYTES = 64 * 2**10
"""What it costs to open a file, as bytes of it."""


@dataclass(frozen=True, slots=True)
class BucketRange:
    """A range of whole buckets to read from a file, and the marks of the rows in it."""

    range: Range
    stability: Stability
    missing: tuple[StreamName, ...]
    revision: int | None = None
    """The generation that the revision began which made the rows; None for all others."""

    @property
    def marks(self) -> tuple[object, ...]:
        """All of it but the range."""
        return self.stability, self.missing, self.revision


@dataclass(frozen=True, slots=True)
class FilePart:
    """What to read from a file."""

    file: SegmentFile
    ranges: tuple[BucketRange, ...]


class FilesPartition(InputPartition):
    """Files of a home for one task; of their rows those with event time in `part`.

    Paths are relative to the storage root, which each worker knows from its own environment.
    """

    def __init__(self, home: Participant, part: Range, files: tuple[FilePart, ...]) -> None:
        self.home = home
        self.part = part
        self.files = files


def partitions_of(
    home: Participant,
    width_us: int,
    segments: Sequence[Segment],
    part: Range,
    revisions: Mapping[Version, int] | None = None,
) -> list[FilesPartition]:
    """The rows of segments with event time in `part`, spread over partitions.

    `width_us` is that of the stream's buckets; `revisions` are those of the stream, if the rows are
    marked with them.
    """
    ranges: dict[SegmentFile, list[BucketRange]] = {}
    for segment in segments:
        if not any(at < part.to_us and at + width_us > part.from_us for at in segment.buckets):
            continue
        for file in segment.files:
            ranges.setdefault(file, []).append(
                BucketRange(
                    segment.range,
                    segment.stability,
                    segment.missing,
                    (revisions or {}).get(segment.version),
                )
            )
    parts = [FilePart(file, tuple(_joined(of))) for file, of in ranges.items()]
    return [FilesPartition(home, part, files) for files in _spread(parts)]


def check_whole(stream: StreamName, segments: Sequence[Segment], part: Range) -> None:
    """Unavailable if the final segments do not cover `part` without a hole."""
    through_us = stable_through_us(segments, part.from_us)
    if through_us is None or through_us < part.to_us:
        raise Unavailable(
            f"the catalog lacks final segments of {stream} between {part.from_us} and "
            f"{part.to_us} us that it promised: restore it from a backup"
        )


def _joined(of: Iterable[BucketRange]) -> Iterable[BucketRange]:
    """Neighbours with the same marks as one: a file may serve thousands of segments."""
    last: BucketRange | None = None
    for ranges in sorted(of, key=lambda w: w.range):
        is_next = last is not None and ranges.range.from_us == last.range.to_us
        if last is not None and is_next and ranges.marks == last.marks:
            last = replace(last, range=last.range.hull(ranges.range))
            continue
        if last is not None:
            yield last
        last = ranges
    if last is not None:
        yield last


def _spread(parts: Sequence[FilePart]) -> list[tuple[FilePart, ...]]:
    """The greatest first, each to the partition with the least; in a partition by event time."""
    sizes = [part.file.size_bytes + OPENING_BYTES for part in parts]
    small, large = (-(-sum(sizes) // most) for most in (SMALL_BYTES, LARGE_BYTES))
    count = min(len(parts), max(large, min(small, SMALL_PARTITIONS_MAX)))
    bins: list[list[int]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    heapify(heap)
    for at in sorted(range(len(parts)), key=lambda at: -sizes[at]):
        filled, number = heap[0]  # there is a partition as soon as there is a file
        bins[number].append(at)
        heapreplace(heap, (filled + sizes[at], number))
    return [tuple(parts[at] for at in sorted(numbers)) for numbers in sorted(map(sorted, bins))]
