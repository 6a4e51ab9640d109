"""A stream's kept history in a home, at one version: what a replay reads in the place of files.

Only final rows are read: of the stable prefix as it was at the version, and of what is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.columns import Column
from medusa_core.errors import Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range, ceil_us, floor_us
from medusa_core.names import StreamName, Version
from medusa_core.segments import Segment, Stability
from pipelines.base.time_text import iso
from pipelines.changes.line_versions import line_of, version_of
from pipelines.homes.home import Home
from pipelines.storage.arrow_schema import STIME
from pipelines.storage.segment_rows import columns_of, read_segments
from pipelines.storage.stable_rows import stable_through_us

ALL = Range(BEGINNING_US, FOREVER_US)
"""All event times that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptHistory:
    """The final rows of a stream in a range, as they were at a version of the line read here.

    `is_from_origin`: nothing of the stream lies before the range.
    """

    stream: StreamName
    producer: str
    version: Version
    range: Range
    columns: tuple[Column, ...]
    width_us: int
    root: Path
    segments: Sequence[Segment]
    is_from_origin: bool

    def within(self, part: Range) -> KeptHistory | None:
        """What of it lies in a range; None if that is nothing."""
        common = self.range.intersection(part)
        if common is None:
            return None
        begins = self.is_from_origin and common.from_us == self.range.from_us
        return replace(self, range=common, is_from_origin=begins)

    @property
    def fingerprint(self) -> tuple[str, str, int, int, int]:
        """The same for the same rows."""
        part = self.range
        return self.stream, self.producer, self.version, part.from_us, part.to_us

    @property
    def gaps(self) -> int:
        """How many parts of the range are declared lost."""
        inside = (s for s in self.segments if s.range.intersection(self.range) is not None)
        return sum(segment.stability is Stability.GAP for segment in inside)

    def tables(self, rows_max: int) -> Iterator[pa.Table]:
        """The rows with `_stime`, in pieces of so many, the same ones at every call.

        Raises Unavailable if a file is missing or damaged, as one that was trimmed meanwhile.
        """
        part = self.range
        whole = Range(floor_us(part.from_us, self.width_us), ceil_us(part.to_us, self.width_us))
        for table in read_segments(self.root, self.segments, self.columns, whole):
            at_us = table[STIME]
            inside = pc.and_(pc.greater_equal(at_us, part.from_us), pc.less(at_us, part.to_us))
            rows = table.filter(inside)
            for at in range(0, rows.num_rows, rows_max):
                yield rows.slice(at, rows_max)


def kept_history(home: Home, stream: str, part: Range, as_of: str | None) -> KeptHistory:
    """The history of a stream in a range: all that is kept and final, where the range is open.

    `as_of`: a version, or a time by the home's clock; None for now. Raises Refused for a range that
    is not kept or not final, for an unknown stream and for an unknown version.
    """
    line = line_of(home.catalog, stream)
    version = version_of(home.catalog, line, "--as-of", as_of) if as_of else line.version
    name, producer = line.stream.name, line.producer
    segments = home.catalog.segments(name, producer=producer, as_of=version if as_of else None)
    through_us = stable_through_us(segments, line.kept_from_us) if version else None
    if line.kept_from_us is None or through_us is None or through_us <= line.kept_from_us:
        raise Refused(f"stream {stream} has no final rows in the home of {home.participant} yet")
    kept = Range(line.kept_from_us, through_us)
    if part.from_us != BEGINNING_US and part.from_us < kept.from_us:
        raise Refused(
            f"stream {stream} is kept from {iso(kept.from_us)} on: give --from that, or later"
        )
    if part.to_us != FOREVER_US and part.to_us > kept.to_us:
        raise Refused(f"stream {stream} is final through {iso(kept.to_us)}: give --to that at most")
    found = kept.intersection(part)
    if found is None:
        raise Refused(
            f"stream {stream} is kept from {iso(kept.from_us)} to {iso(kept.to_us)}: give a --from "
            "and a --to in this range"
        )
    return KeptHistory(
        stream=name,
        producer=str(producer),
        version=version,
        range=found,
        columns=columns_of(line.stream),
        width_us=line.stream.width_us,
        root=home.storage,
        segments=tuple(sorted(segments, key=lambda its: its.range)),
        is_from_origin=line.origin_us is not None and found.from_us <= line.origin_us,
    )
