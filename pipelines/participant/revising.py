"""Revising: the rows of the ranges that a revision names, and what it leads to in this home.

A revision replaces whole buckets. Which windows of which streams need a bucket is known to the
fragments alone, so it is found here; the catalog decides at each commit whether one is owed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from medusa_core.columns import Column
from medusa_core.commits import OutputSegment
from medusa_core.digest import Digest
from medusa_core.errors import Conflict, Refused
from medusa_core.fragments import Fragment
from medusa_core.grid import FOREVER_US, Range
from medusa_core.line_revisions import RANGES_MAX, RevisedStream, RevisionReach
from medusa_core.names import StreamName
from medusa_core.network import Source
from medusa_core.recalls import RecallResult
from medusa_core.revisions import RevisedSegment, RevisionRequest, touched
from medusa_core.segments import Segment, SegmentFile, Stability
from pipelines.base.time_text import iso
from pipelines.catalog.lines_read import lines_read
from pipelines.catalog.processing_roles import Plans, Recalls
from pipelines.catalog.reading_roles import Lines
from pipelines.catalog.records import LineStatus
from pipelines.homes.home import Home
from pipelines.participant.trimming import shapes_here
from pipelines.sources.recorded.reader import read_recorded_file
from pipelines.storage.arrow_digests import digests_by_bucket, row_hashes
from pipelines.storage.arrow_schema import STIME, columns_of, file_schema, record_schema
from pipelines.storage.segment_files import keep_files, new_attempt, write_file
from pipelines.storage.segment_rows import read_segments


class RevisedHome(Plans, Lines, Protocol):
    """Where it is looked up what is computed from a line."""


Int64s = npt.NDArray[np.int64]
RowKey = tuple[int, int, int]
"""The event time of a row and both hashes of its values."""


class RevisionAction(Enum):
    """What becomes of the records of a file; the values are the options of the command."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedRows:
    """The ranges that a revision replaces, in order, with the segment that each is of, and the rows
    that they hold after it. `before` and `after` count rows."""

    parts: tuple[tuple[Range, Segment], ...]
    table: pa.Table
    before: int
    after: int


def records_of_file(source: Source, file: Path) -> pa.Table:
    """The records of a file as the source is declared; Refused, with its place, if one does not
    fit."""
    tables = [record_schema(columns_of(source.name, source.columns)).empty_table()]
    for chunk in read_recorded_file(source, file):
        for bad in chunk.quarantined:
            raise Refused(
                f"{file}, record {bad.position}: {bad.field} {bad.reason}: correct it, nothing was "
                "changed"
            )
        tables.append(chunk.records)
    table = pa.concat_tables(tables)
    if not table.num_rows:
        raise Refused(f"{file} has no record: there is nothing to revise")
    return table


def revised_rows(
    home: Home, line: LineStatus, columns: Sequence[Column], given: pa.Table,
    action: RevisionAction,
) -> RevisedRows:  # fmt: skip
    """The buckets that the given records lie in, as they shall be.

    Refused if one of these buckets is not stable and kept, and if a record that is to be removed is
    not there.
    """
    width_us, stream = line.stream.width_us, line.stream.name
    stimes = given[STIME].to_numpy()
    named: Int64s = np.unique(stimes - stimes % width_us)
    whole = Range(int(named[0]), int(named[-1]) + width_us)
    segments = home.catalog.segments(stream, whole, producer=line.producer)
    parts = revised_parts(line, segments, named.tolist())
    held = [record_schema(columns).empty_table()]
    for segment in {id(s): s for _, s in parts}.values():
        for table in read_segments(home.storage, [segment], columns, whole):
            starts = table[STIME].to_numpy()
            inside = np.isin(starts - starts % width_us, named)
            held.append(table.filter(pa.array(inside)).select(record_schema(columns).names))
    before = pa.concat_tables(held)
    if action is RevisionAction.REPLACE:
        after = given
    elif action is RevisionAction.ADD:
        after = pa.concat_tables([before, given])
    else:
        after = _without(before, given, columns)
    return RevisedRows(parts=parts, table=after, before=before.num_rows, after=after.num_rows)


def revised_parts(
    line: LineStatus, segments: Sequence[Segment], starts: Sequence[int]
) -> tuple[tuple[Range, Segment], ...]:
    """The named buckets (their beginnings, in order) as runs, each within one of the segments.

    Refused if one of them is not stable and kept.
    """
    width_us = line.stream.width_us
    found: list[tuple[Range, Segment]] = []
    in_order = sorted(segments, key=lambda segment: segment.range)
    begins = [segment.range.from_us for segment in in_order]
    for at_us in starts:
        of = in_order[bisect_right(begins, at_us) - 1] if begins and at_us >= begins[0] else None
        if (
            of is None
            or not of.range.holds(at_us)
            or of.stability is not Stability.STABLE
            or line.kept_from_us is None
            or at_us < line.kept_from_us
        ):
            kept_us, through_us = line.kept_from_us, line.stable_through_us
            reached = (
                "nothing yet"
                if kept_us is None or through_us is None
                else (f"{iso(kept_us)} to {iso(through_us)}")
            )
            raise Refused(
                f"a record of {iso(at_us)} is outside of what is stable and kept of "
                f"{line.stream.name} ({reached}): leave it out"
            )
        last = found[-1] if found else None
        if last is not None and last[1] is of and last[0].to_us == at_us:
            found[-1] = (Range(last[0].from_us, at_us + width_us), of)
        else:
            found.append((Range(at_us, at_us + width_us), of))
    if len(found) > RANGES_MAX:
        raise Refused(
            f"the records lie in {len(found):,} ranges of {line.stream.name}: give parts of the "
            f"file, with {RANGES_MAX:,} at most"
        )
    return tuple(found)


def _keys(table: pa.Table, columns: Sequence[Column]) -> list[RowKey]:
    firsts, seconds = row_hashes(table, columns)
    stimes: list[int] = table[STIME].to_pylist()
    return list(zip(stimes, firsts.tolist(), seconds.tolist(), strict=True))


def _without(before: pa.Table, given: pa.Table, columns: Sequence[Column]) -> pa.Table:
    """The rows without one equal row for each given one."""
    gone = Counter(_keys(given, columns))
    kept: list[bool] = []
    for key in _keys(before, columns):
        is_gone = gone[key] > 0
        gone[key] -= is_gone
        kept.append(not is_gone)
    missing = [key[0] for key, n in gone.items() if n > 0]
    if missing:
        raise Refused(
            f"{len(missing):,} records of the file are not in the stream, the first is of "
            f"{iso(min(missing))}: give what `medusa read` shows"
        )
    return before.filter(pa.array(kept, pa.bool_()))


def write_revised(
    home: Home, line: LineStatus, columns: Sequence[Column], rows: RevisedRows
) -> tuple[RevisedSegment, ...]:
    """The segments of a revision, whose rows are written as one synced file."""
    stimes = rows.table[STIME].to_numpy()
    order = np.argsort(stimes, kind="stable")
    starts = (stimes - stimes % line.stream.width_us)[order]
    sorted_ = rows.table.take(pa.array(order))
    table = pa.table([*sorted_.columns, pa.array(starts, pa.int64())], schema=file_schema(columns))
    digests = digests_by_bucket(table, columns, starts)
    files: tuple[SegmentFile, ...] = ()
    if table.num_rows:
        files = (write_file(home.storage, line.stream.name, new_attempt(), table),)
        keep_files(home.storage, files)
    return revised_segments(line.stream.name, rows.parts, digests, files)


def revised_segments(
    stream: StreamName,
    parts: Iterable[tuple[Range, Segment]],
    digests: Mapping[int, Digest],
    files: tuple[SegmentFile, ...],
) -> tuple[RevisedSegment, ...]:
    """A segment of each part, of the files that have the rows of all of them."""
    found: list[RevisedSegment] = []
    held = sorted(digests)
    for part, of in parts:
        inside = held[bisect_left(held, part.from_us) : bisect_left(held, part.to_us)]
        segment = OutputSegment(
            stream=stream,
            range=part,
            stability=Stability.STABLE,
            buckets={at: digests[at] for at in inside},
            files=files if inside else (),
        )
        found.append(RevisedSegment(segment=segment, plan=of.plan))
    return tuple(found)


def make_revision(
    catalog: Recalls, request: RevisionRequest, remove: Callable[[str], object]
) -> RecallResult:
    """Make a revision whose rows are written; the files of one that is refused are removed."""
    try:
        return catalog.revise(request)
    except (Refused, Conflict):
        for path in {file.path for one in request.segments for file in one.segment.files}:
            remove(path)
        raise


def reach_of(catalog: RevisedHome, line: LineStatus, ranges: Sequence[Range]) -> RevisionReach:
    """What of this home's streams is computed from some ranges of a line, as far as it is kept.

    Refused if what a fragment would read again is trimmed, also in a copy of a partner's line.
    """
    here, lines = catalog.participant, catalog.lines()
    computed = [s for s in lines if s.producer.participant == here and not s.producer.is_import]
    changed, needed = _reached(
        shapes_here(catalog), lines_read(computed, here), line.stream.name, ranges
    )
    read = lines_read(lines, here)
    for name, inputs in needed.items():
        for stream, from_us in inputs.items():
            trimmed_us = _trimmed_us(read.get(stream))
            if trimmed_us is not None and from_us < trimmed_us:
                raise Refused(
                    f"{name} cannot compute again what is revised, because it reads {stream} from "
                    f"{iso(from_us)} on, which is trimmed before {iso(trimmed_us)}"
                )
    return _reach(changed, needed)


def reach_of_import(
    catalog: RevisedHome, stream: StreamName, ranges: Sequence[Range]
) -> RevisionReach:
    """What of this home's streams is computed from some ranges of a partner's line.

    A partner does not ask what is trimmed here: what cannot be computed again stays as it is.
    """
    lines = lines_read(catalog.lines(), catalog.participant)
    return _reach(*_reached(shapes_here(catalog), lines, stream, ranges))


def _reached(
    shapes: Mapping[str, Sequence[Fragment]], lines: Mapping[StreamName, LineStatus],
    root: StreamName, ranges: Sequence[Range],
) -> tuple[dict[StreamName, tuple[Range, ...]], dict[str, dict[StreamName, int]]]:  # fmt: skip
    """The buckets of each stream behind some ranges of one, and what fragments need for them: what
    they read, and the buckets themselves, which would be computed for nobody if they were trimmed
    before."""
    changed: dict[StreamName, tuple[Range, ...]] = {root: tuple(ranges)}
    needed: dict[str, dict[StreamName, int]] = {}
    for name, shape in _in_order(shapes, root):
        for output in shape.outputs:
            its = lines.get(output)
            whole = None if its is None else _kept(its)
            if its is None or whole is None:
                continue
            width_us = its.stream.width_us
            found = touched(shape, output, width_us, whole, changed)
            changed[output] = tuple(sorted({*changed.get(output, ()), *found}))
            for bucket in found:
                need = {**shape.needed(output, bucket), output: bucket}
                for stream, part in need.items():
                    of = needed.setdefault(name, {})
                    of[stream] = min(of.get(stream, FOREVER_US), part.from_us)
    del changed[root]
    return changed, needed


def _reach(
    changed: Mapping[StreamName, tuple[Range, ...]], needed: Mapping[str, Mapping[StreamName, int]]
) -> RevisionReach:
    streams = tuple(
        RevisedStream(stream=stream, from_us=parts[0].from_us, buckets=len(parts))
        for stream, parts in sorted(changed.items())
        if parts
    )
    return RevisionReach(streams=streams, needed=needed)


def _in_order(
    shapes: Mapping[str, Sequence[Fragment]], root: StreamName
) -> list[tuple[str, Fragment]]:
    """The fragments behind a stream, each after those that it reads."""
    order: list[tuple[str, Fragment]] = []
    reached, waiting = {root}, dict(shapes)
    while waiting:
        outputs = {o for shaped in waiting.values() for shape in shaped for o in shape.outputs}
        ready = [
            name
            for name, shaped in sorted(waiting.items())
            if not any(outputs.intersection(shape.input_streams) for shape in shaped)
        ]
        for name in ready or sorted(waiting):
            shaped = waiting.pop(name)
            behind = [s for s in shaped if reached.intersection(s.input_streams)]
            order += [(name, shape) for shape in behind]
            reached.update(output for shape in behind for output in shape.outputs)
    return order


def _kept(line: LineStatus) -> Range | None:
    from_us, to_us = line.kept_from_us, line.live_through_us
    return None if from_us is None or to_us is None or from_us >= to_us else Range(from_us, to_us)


def _trimmed_us(line: LineStatus | None) -> int | None:
    """The time before which a line is trimmed; None if all of it is kept."""
    return None if line is None or line.trimmed_us == line.origin_us else line.trimmed_us
