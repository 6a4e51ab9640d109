"""What a step leaves to the next one, so that no record is read twice.

Of windows that overlap these are panes, the partial aggregates of the records that a fragment read.
Of a box over spans or with a table they are rows that stand for its earlier records
(`pipelines.spark.carried_relations`). Both are kept with the names of the segments of these records
and the digests of their buckets. The next step uses them instead of reading again, if it is to read
the same versions with the same digests (a home that was restored from a backup assigns the same
versions again, to other records); else it reads them. So this is never more than a saving: lineage
names the records, a new process begins with nothing, and results are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from medusa_core.decide import ComputeStep
from medusa_core.failure_rules import FailureRules
from medusa_core.fragments import Fragment
from medusa_core.grid import Range
from medusa_core.names import StreamName
from medusa_core.network import (
    Aggregate,
    Deduplicate,
    Every,
    Filter,
    Lookup,
    Map,
    Running,
    Session,
    Union,
    inputs_of,
)
from medusa_core.segments import Producer, Read, Segment
from pipelines.language.carried_partials import Partials, partials_of
from pipelines.language.check import CheckedNetwork
from pipelines.spark.carried_rows import CarriedRows
from pipelines.spark.compiled_fragment import (
    STEP_COLUMNS,
    STEP_VIEW,
    CarriedShape,
    PaneShape,
    pane_view,
)
from pipelines.spark.prepared import SLOT_BYTES, Given
from pipelines.spark.results import rows_left
from pipelines.storage.arrow_schema import STIME, record_schema

ROWS_MAX = 1_000_000
"""How many rows of panes a fragment leaves at most; more would be no saving."""

EVERYTHING = Range(-(2**62), 2**62)

FILE_BYTES_MAX = SLOT_BYTES - 1
"""How long a file of carried rows is at most: a job reads one in one task."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What was read of one segment."""

    range: Range
    segment: Segment

    def is_as(self, other: Piece | None, part: Range) -> bool:
        """Whether the other is of the same range and has the same digests, within a part."""
        if other is None or self.within(part) != other.within(part):
            return False
        if self.segment.buckets is other.segment.buckets:
            return True
        own = self.within(part)
        return own is None or self.segment.within(own) == other.segment.within(own)

    def within(self, part: Range) -> Range | None:
        """The part of the range that lies in another one."""
        return self.range.intersection(part)


Pieces: TypeAlias = Mapping[tuple[Producer, int], Piece]
"""What was read of a stream, by the producer and the version of each segment."""


def are_equal(before: Pieces, now: Pieces, part: Range) -> bool:
    """Whether the same was read of a part of a stream, with the same digests."""
    return all(
        piece.is_as(now.get(key), part) for key, piece in before.items() if piece.within(part)
    ) and all(key in before for key, piece in now.items() if piece.within(part))


@dataclass(frozen=True, slots=True, kw_only=True)
class Panes:
    """Panes by box, and which range and pieces of each stream they were made from.

    They are all that steps from `end_us` on need.
    """

    end_us: int
    ranges: Mapping[StreamName, Range]
    pieces: Mapping[StreamName, Pieces]
    rows: Mapping[str, pa.Table]
    carried: Mapping[str, CarriedRows] = field(default_factory=dict)

    def cover(self, step: ComputeStep, ranges: Mapping[StreamName, Range]) -> bool:
        """Whether they begin no later than what is needed, and are of what is there now."""
        if not ranges or not ranges.keys() <= self.ranges.keys():
            return False
        if step.range.from_us < self.end_us:
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
                if not are_equal(self.pieces[stream], now.get(stream, {}), overlap):
                    return False
            elif part.from_us > before.to_us and stream in ranges:
                return False
        return True


def carried_boxes(fragment: Fragment, checked: CheckedNetwork) -> dict[str, Partials | None]:
    """The boxes of a fragment for whose earlier records rows can stand, with their partials."""
    found: dict[str, Partials | None] = {}
    for box in fragment.boxes:
        match box:
            case Deduplicate() | Lookup():
                found[box.name] = None
            case Running() | Every() | Session():
                partials = partials_of(checked, box)
                if partials is not None:
                    found[box.name] = partials
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """The boxes of a fragment that leave something: panes, or rows in place of their records.

    `passing` are all boxes whose rows come once: a step has those of its own records alone.
    """

    panes: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    passing: frozenset[str] = frozenset()


def leaving(fragment: Fragment, folded: Iterable[str], carrying: Collection[str]) -> Leaving:
    """The boxes that can leave something to the next step; none unless all records end in such.

    Another box that aggregates records itself would need them all again. A Union of records with
    rows of an Aggregate has none: these rows come again in each step that needs them, so panes of
    the step before would hold them twice.
    """
    panes = set(folded)
    carries_records: set[str] = set()
    found, carried = [], []
    for box in fragment.boxes:
        ports = [fragment.network.port(r, box.name) for r in inputs_of(box)]
        is_carrying = [p in fragment.inputs or p.owner in carries_records for p in ports]
        if not any(is_carrying):
            continue
        if not all(is_carrying):
            return Leaving()
        match box:
            case Aggregate() if box.name in panes:
                found.append(box.name)
            case Filter() | Map() | Union():
                carries_records.add(box.name)
            case _ if box.name in carrying:
                carries_records.add(box.name)
                carried.append(box.name)
            case _:
                return Leaving()
    return Leaving(panes=tuple(found), carried=tuple(carried), passing=frozenset(carries_records))


@dataclass(frozen=True, slots=True)
class Saved:
    """What is left to read, and the panes and carried rows of the rest by box.

    A pane at the edge may hold records before the requested ones: windows that hold the whole
    of it are none of the step's. Sessions that are carried were open before the position at which
    `bounds` begins; those that end before its end are the step's.
    """

    reads: tuple[Read, ...]
    panes: Mapping[str, pa.Table]
    carried: Mapping[str, CarriedRows]
    bounds: Range = EVERYTHING

    @property
    def rows_alone(self) -> int:
        """How many rows there are of which alone rows are made: panes and open sessions."""
        panes: int = sum(table.num_rows for table in self.panes.values())
        return panes + sum(c.rows for c in self.carried.values() if c.shape.is_open)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        panes: int = sum(table.num_rows for table in self.panes.values())
        return panes + sum(carried.rows for carried in self.carried.values())

    @property
    def carried_bytes(self) -> int:
        """How many bytes carried rows take, those of files as in the file."""
        return sum(carried.size_bytes for carried in self.carried.values())

    @property
    def given(self) -> Mapping[str, Given]:
        """The rows by the view under which a job takes them."""
        found: dict[str, Given] = {pane_view(box): rows for box, rows in self.panes.items()}
        for carried in self.carried.values():
            found |= carried.given
        if any(carried.shape.is_open for carried in self.carried.values()):
            found[STEP_VIEW] = pa.table(
                [[self.bounds.from_us], [self.bounds.to_us], [0]], record_schema(STEP_COLUMNS)
            )
        return found


class StepPanes:
    """What one fragment leaves from step to step; files of carried rows lie in a folder."""

    def __init__(
        self, shapes: Sequence[PaneShape], carried: Sequence[CarriedShape], folder: Path,
        rules: FailureRules,
    ) -> None:  # fmt: skip
        """`rules` name the ways from each box to the outputs."""
        self._rules = rules
        self._shapes = {shape.box: shape for shape in shapes}
        self._carried = {shape.box: shape for shape in carried}
        self._folder = folder
        self._panes: Panes | None = None

    def nothing(self, reads: tuple[Read, ...] = (), end_us: int = EVERYTHING.to_us) -> Saved:
        """No panes and no rows: all of the reads are left to read, by a step until `end_us`."""
        empty = {box: record_schema(s.columns).empty_table() for box, s in self._shapes.items()}
        none = {box: CarriedRows.none(shape) for box, shape in self._carried.items()}
        return Saved(reads, empty, none, Range(EVERYTHING.from_us, end_us))

    def saved(self, step: ComputeStep) -> Saved:
        """What of the step's reads the panes of the step before stand for."""
        kept = self._panes
        ranges = ranges_of(step.reads)
        if kept is None or not kept.cover(step, ranges):
            return self.nothing(step.reads, step.range.to_us)
        reads = []
        for read in step.reads:
            done_us = kept.ranges[read.input].to_us
            if read.range.to_us > done_us:
                from_us = max(read.range.from_us, done_us)
                reads.append(replace(read, range=Range(from_us, read.range.to_us)))
        rows = {b: self._needed(b, t, step.range.from_us) for b, t in kept.rows.items()}
        return Saved(tuple(reads), rows, kept.carried, Range(kept.end_us, step.range.to_us))

    def _needed(self, box: str, rows: pa.Table, from_us: int) -> pa.Table:
        """The panes of a box that output positions at `from_us` or later need."""
        first_us = self._rules.of(box, is_window=True).first_needed_us(from_us)
        return rows.filter(pc.greater_equal(rows[STIME], first_us))

    def keep(self, step: ComputeStep, saved: Saved, tagged: pa.Table) -> None:
        """Keep what the step made and what it was given."""
        rows = {}
        for box, shape in self._shapes.items():
            table = pa.concat_tables([saved.panes[box], rows_left(shape, tagged)])
            rows[box] = self._needed(box, table, step.range.to_us)
        if sum(table.num_rows for table in rows.values()) > ROWS_MAX:
            self._panes = None
            return
        self._keep(step, saved, rows, lambda carried, end_us: carried.with_those_of(
            tagged, end_us, self._folder))  # fmt: skip

    @property
    def is_of_rows_alone(self) -> bool:
        """Whether rows stand for the records of boxes, and there are no panes beside them."""
        return bool(self._carried) and not self._shapes

    def keep_written(self, step: ComputeStep, saved: Saved, written: Mapping[str, Path]) -> None:
        """Keep what the tasks of the step wrote to a folder for each box, and what it was given."""
        self._keep(step, saved, {}, lambda carried, end_us: carried.with_file(
            written[carried.shape.box], end_us, self._folder))  # fmt: skip

    def _keep(
        self, step: ComputeStep, saved: Saved, rows: Mapping[str, pa.Table],
        grown: Callable[[CarriedRows, int], CarriedRows],
    ) -> None:  # fmt: skip
        self._panes = None
        if not (self._shapes or self._carried):
            return
        ranges = ranges_of(step.reads)
        carried = self._carried_on(saved, {part.to_us for part in ranges.values()}, grown)
        if carried is not None:
            self._panes = Panes(
                end_us=step.range.to_us, ranges=ranges, pieces=pieces_of(step), rows=rows,
                carried=carried,
            )  # fmt: skip

    def _carried_on(
        self, saved: Saved, ends_us: Collection[int],
        grown: Callable[[CarriedRows, int], CarriedRows],
    ) -> Mapping[str, CarriedRows] | None:  # fmt: skip
        """The rows that the boxes leave; None if they stand for no records that end together.

        Records of one input that is read further than another would be taken out of their order.
        """
        if not self._carried:
            return {}
        if len(ends_us) != 1:
            return None
        (end_us,) = ends_us
        try:
            carried = {box: grown(rows, end_us) for box, rows in saved.carried.items()}
            sizes = (c.file.path.stat().st_size for c in carried.values() if c.file is not None)
            return None if any(size > FILE_BYTES_MAX for size in sizes) else carried
        except (OSError, duckdb.Error):
            # A full disk costs the saving, and not the step, which is computed.
            return None


def ranges_of(reads: Iterable[Read]) -> dict[StreamName, Range]:
    """From where to where each stream is read."""
    found: dict[StreamName, Range] = {}
    for read in reads:
        known = found.get(read.input)
        found[read.input] = read.range if known is None else known.hull(read.range)
    return found


def pieces_of(step: ComputeStep) -> dict[StreamName, Pieces]:
    """What is read of each stream, segment by segment; several outputs may read the same."""
    ranges: dict[StreamName, dict[tuple[Producer, int], Range]] = {}
    for read in step.reads:
        pieces = ranges.setdefault(read.input, {})
        key = (read.producer, read.version)
        pieces[key] = pieces[key].hull(read.range) if key in pieces else read.range
    return {
        stream: {
            key: Piece(pieces[key], segment)
            for segment in step.fragment.inputs[stream].segments
            if (key := (segment.producer, segment.version)) in pieces
        }
        for stream, pieces in ranges.items()
    }
