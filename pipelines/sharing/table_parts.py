"""The rows of a table as parts of stored files, and parts as pieces: what becomes one shared file.

A piece should have many rows, so that a client makes few requests, and should be the same one at
later versions, so that it is written once. Pieces are therefore cut where the parts themselves say
so (content-defined chunking): at the end of a part whose event time has a hash with many zero bits.
Behind the last such end pieces are shorter, so that a table that grows by a part is written again
by a few parts only; and where its beginning is trimmed all pieces but the first stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from zlib import crc32

from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.segments import Segment, SegmentFile, Stability

ROWS_MAX = 250_000
"""Rows of a piece, unless one bucket has more."""

COARSE_BITS, FINE_BITS = 8, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The rows of files whose buckets begin in a range: those of a segment, or of a part of it."""

    files: tuple[SegmentFile, ...]
    range: Range
    rows: int
    stability: Stability
    missing: tuple[StreamName, ...] = ()


def parts_of(segments: Sequence[Segment], kept: Range | None) -> tuple[Part, ...]:
    """The non-empty parts of segments inside a range, each of ROWS_MAX rows or of one bucket."""
    if kept is None:
        return ()
    return tuple(
        part
        for segment in segments
        if (span := segment.range.intersection(kept)) is not None
        for part in _cut(segment, span)
    )


def _cut(segment: Segment, span: Range) -> Iterator[Part]:
    buckets = segment.within(span)
    from_us, rows = span.from_us, 0
    for at_us in sorted(buckets):
        if rows and rows + buckets[at_us].rows > ROWS_MAX:
            yield _part(segment, Range(from_us, at_us), rows)
            from_us, rows = at_us, 0
        rows += buckets[at_us].rows
    if rows:
        yield _part(segment, Range(from_us, span.to_us), rows)


def _part(segment: Segment, span: Range, rows: int) -> Part:
    return Part(
        files=segment.files, range=span, rows=rows, stability=segment.stability,
        missing=segment.missing,
    )  # fmt: skip


def pieces_of(parts: Sequence[Part]) -> tuple[tuple[Part, ...], ...]:
    """The parts in runs, each of which becomes one file."""
    coarse, rest = _runs(parts, COARSE_BITS)
    fine, tail = _runs(rest, FINE_BITS)
    return tuple(piece for run in (*coarse, *fine, tail) for piece in _limited(run))


def _runs(parts: Sequence[Part], bits: int) -> tuple[tuple[Sequence[Part], ...], Sequence[Part]]:
    """Runs that end where a part says so, and what is behind the last one."""
    runs, first = [], 0
    for position, part in enumerate(parts, start=1):
        if crc32(part.range.to_us.to_bytes(16, "big", signed=True)) % (1 << bits) == 0:
            runs.append(parts[first:position])
            first = position
    return tuple(runs), parts[first:]


def _limited(run: Sequence[Part]) -> Iterator[tuple[Part, ...]]:
    piece: list[Part] = []
    rows = 0
    for part in run:
        if piece and rows + part.rows > ROWS_MAX:
            yield tuple(piece)
            piece, rows = [], 0
        piece.append(part)
        rows += part.rows
    if piece:
        yield tuple(piece)
