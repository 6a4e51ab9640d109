"""Panes that a step leaves to the next one, so that overlapping windows read no record twice.

The partial aggregates of the records that a fragment read are kept in memory, with the names of
the segments of these records and the digests of their buckets. The next step uses them instead of
reading again, if it is to read the same versions with the same digests (a home that was restored
from a backup assigns the same versions again, to other records); else it reads them. So this is
never more than a saving: lineage names the records, a new process begins with nothing, and
results are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.decide import ComputeStep
from medusa_core.digest import Digest
from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Filter,
    Map,
    Union,
    inputs_of,
)
from medusa_core.segments import Read, Segment
from pipelines.spark.compiled_fragment import TAG, PaneShape
from pipelines.storage.arrow_schema import STIME, record_schema

ROWS_MAX = 1_000_000
"""How many rows of panes a fragment leaves at most; more would be no saving."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """What was read of a stream: producer, version, from, to of each piece, and what was in it.

    `digests` are those of the non-empty buckets, by producer and start.
    """

    read: frozenset[tuple[object, int, int, int]] = frozenset()
    digests: Mapping[tuple[object, int], Digest] = field(default_factory=dict)

    def within(self, part: Range) -> Pieces:
        """The same of a part of the range."""
        return Pieces(
            frozenset(
                (producer, version, max(from_us, part.from_us), min(to_us, part.to_us))
                for producer, version, from_us, to_us in self.read
                if from_us < part.to_us and to_us > part.from_us
            ),
            {key: digest for key, digest in self.digests.items() if part.holds(key[1])},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Panes:
    """Panes by box, and which range and pieces of each stream they were made from."""

    ranges: Mapping[StreamName, Range]
    pieces: Mapping[StreamName, Pieces]
    rows: Mapping[str, pa.Table]

    def cover(self, step: ComputeStep, ranges: Mapping[StreamName, Range]) -> bool:
        """Whether they begin no later than what is needed, and are of what is there now."""
        if not ranges or not ranges.keys() <= self.ranges.keys():
            return False
        first_us = min(part.from_us for part in ranges.values())
        now = pieces_of(step)
        for stream, before in self.ranges.items():
            part = ranges.get(stream, Range(first_us, step.range.to_us))
            # Besides windows, a step needs all records of its own range, also for quarantine.
            if not before.from_us <= part.from_us or not before.to_us <= step.range.from_us:
                return False
            if part.from_us < before.to_us:
                overlap = Range(part.from_us, before.to_us)
                if self.pieces[stream].within(overlap) != now.get(stream, Pieces()).within(overlap):
                    return False
            elif part.from_us > before.to_us and stream in ranges:
                return False
        return True


def keeps_panes(fragment: Fragment, folded: Iterable[str]) -> tuple[str, ...]:
    """The boxes whose panes can be left to the next step; none unless all records end in such.

    Another box that aggregates records itself would need them all again. A Union of records with
    rows of an Aggregate has none: these rows come again in each step that needs them, so panes of
    the step before would hold them twice.
    """
    panes = set(folded)
    carries_records: set[str] = set()
    found = []
    for box in fragment.boxes:
        ports = [fragment.network.port(r, box.name) for r in inputs_of(box)]
        carrying = [p in fragment.inputs or p.owner in carries_records for p in ports]
        if not any(carrying):
            continue
        if not all(carrying):
            return ()
        match box:
            case Aggregate() if box.name in panes:
                found.append(box.name)
            case Filter() | Map() | Union():
                carries_records.add(box.name)
            case _:
                return ()
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Saved:
    """What is left to read, and the panes of the rest by box.

    A pane at the edge may hold records before the requested ones: windows that hold the whole
    of it are none of the step's.
    """

    reads: tuple[Read, ...]
    panes: Mapping[str, pa.Table]

    @property
    def rows(self) -> int:
        """How many rows of panes there are."""
        return sum(table.num_rows for table in self.panes.values())


class StepPanes:
    """The panes of one fragment from step to step."""

    def __init__(self, shapes: Sequence[PaneShape]) -> None:
        self._shapes = {shape.box: shape for shape in shapes}
        self._panes: Panes | None = None

    def nothing(self, reads: tuple[Read, ...] = ()) -> Saved:
        """No panes: all of the reads are left to read."""
        empty = {box: record_schema(s.columns).empty_table() for box, s in self._shapes.items()}
        return Saved(reads, empty)

    def saved(self, step: ComputeStep) -> Saved:
        """What of the step's reads the panes of the step before stand for."""
        kept = self._panes
        ranges = ranges_of(step.reads)
        if kept is None or not kept.rows or not kept.cover(step, ranges):
            return self.nothing(step.reads)
        reads = []
        for read in step.reads:
            done_us = kept.ranges[read.input].to_us
            if read.range.to_us > done_us:
                from_us = max(read.range.from_us, done_us)
                reads.append(replace(read, range=Range(from_us, read.range.to_us)))
        from_us = min(r.from_us for r in ranges.values())
        rows = {
            box: table.filter(pc.greater_equal(table[STIME], from_us))
            for box, table in kept.rows.items()
        }
        return Saved(tuple(reads), rows)

    def keep(self, step: ComputeStep, saved: Saved, tagged: pa.Table) -> None:
        """Keep what the step made and what it was given."""
        rows = {}
        for box, shape in self._shapes.items():
            made = tagged.filter(pc.equal(tagged[TAG], shape.tag)).select([*shape.slots, STIME])
            schema = record_schema(shape.columns)
            made = pa.table(made.columns, names=schema.names).cast(schema)
            rows[box] = pa.concat_tables([saved.panes[box], made])
        if sum(table.num_rows for table in rows.values()) > ROWS_MAX:
            self._panes = None
            return
        self._panes = Panes(ranges=ranges_of(step.reads), pieces=pieces_of(step), rows=rows)


def ranges_of(reads: Iterable[Read]) -> dict[StreamName, Range]:
    """From where to where each stream is read."""
    found: dict[StreamName, Range] = {}
    for read in reads:
        known = found.get(read.input)
        found[read.input] = read.range if known is None else known.hull(read.range)
    return found


def pieces_of(step: ComputeStep) -> dict[StreamName, Pieces]:
    """What is read of each stream, segment by segment; several outputs may read the same."""
    found: dict[StreamName, dict[tuple[object, int], Range]] = {}
    for read in step.reads:
        pieces = found.setdefault(read.input, {})
        key = (read.producer, read.version)
        pieces[key] = pieces[key].hull(read.range) if key in pieces else read.range
    return {
        stream: Pieces(
            frozenset((p, v, r.from_us, r.to_us) for (p, v), r in pieces.items()),
            _digests(step.fragment.inputs[stream].segments, pieces),
        )
        for stream, pieces in found.items()
    }


def _digests(
    segments: Iterable[Segment], pieces: Mapping[tuple[object, int], Range]
) -> dict[tuple[object, int], Digest]:
    found: dict[tuple[object, int], Digest] = {}
    for segment in segments:
        part = pieces.get((segment.producer, segment.version))
        if part is not None:
            found |= {(segment.producer, at): d for at, d in segment.within(part).items()}
    return found
