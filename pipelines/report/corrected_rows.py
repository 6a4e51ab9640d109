"""The rows that corrections changed, before and after.

Compared bucket by bucket, by digest first, as `medusa changes` does. A deleted and an inserted
row of the same bucket are shown side by side if they agree in the stream's key, or, without one,
in all columns of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medusa_core.certificates import LineEvent
from medusa_core.changes import ChangeType, Difference, bucket_changes
from medusa_core.columns import Column
from medusa_core.grid import Range
from medusa_core.names import Version
from medusa_core.segments import Segment
from pipelines.catalog.records import LineStatus
from pipelines.changes.changed_rows import BucketRows, changed_rows
from pipelines.homes.home import Home
from pipelines.storage.segment_rows import columns_of

CORRECTIONS_MAX = 500
ROWS_MAX = 60

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCorrected:
    """A row of a bucket as it was when tentative and as it is; None where there was, or is, none.

    Values are those of the columns, in their order.
    """

    bucket_us: int
    before: Values | None
    after: Values | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrections:
    """What corrections changed: rows of the corrected buckets before and after, how many of them
    differ, and the first of these. `is_whole` is false if there were too many to look at."""

    columns: tuple[Column, ...]
    rows_before: int = 0
    rows_after: int = 0
    differing: int = 0
    changes: tuple[RowCorrected, ...] = ()
    is_whole: bool = True


def read_corrections(
    home: Home, line: LineStatus, window: Range, events: Sequence[LineEvent]
) -> Corrections:
    """Compare what was tentative in a window with what took its place."""
    columns = columns_of(line.stream)
    key = line.stream.key or tuple(c.name for c in columns if c.type == "string")
    rows = BucketRows(home.storage, columns)
    before = after = differing = 0
    changes: list[RowCorrected] = []
    parts = _corrected(window, events)
    for part, version in parts[:CORRECTIONS_MAX]:
        olds = _live(home, line, part, Version(version - 1))
        news = _live(home, line, part, Version(version))
        before += _rows(olds, part)
        after += _rows(news, part)
        for change in bucket_changes(Difference(before=olds, after=news), part):
            if change.is_promoted:
                continue
            waiting: Values | None = None
            for row in changed_rows(change, rows, columns, key):
                match row.type:
                    case ChangeType.PROMOTE:
                        continue
                    case ChangeType.UPDATE_PREIMAGE:
                        waiting = row.values
                        continue
                    case ChangeType.UPDATE_POSTIMAGE:
                        found = (waiting, row.values)
                    case ChangeType.DELETE:
                        found = (row.values, None)
                    case ChangeType.INSERT:
                        found = (None, row.values)
                differing += 1
                if len(changes) < ROWS_MAX:
                    changes.append(
                        RowCorrected(bucket_us=change.at_us, before=found[0], after=found[1])
                    )
    return Corrections(
        columns=columns,
        rows_before=before,
        rows_after=after,
        differing=differing,
        changes=tuple(changes),
        is_whole=len(parts) <= CORRECTIONS_MAX,
    )


def _corrected(window: Range, events: Sequence[LineEvent]) -> list[tuple[Range, int]]:
    """Each range at which a final row took the place of a tentative one, with its version."""
    ended = [e for e in events if not e.stability.is_final and e.end_version is not None]
    found = set()
    for final in events:
        part = final.range.intersection(window)
        if part is None or not final.stability.is_final:
            continue
        if any(e.end_version == final.begin_version and e.range.overlaps(part) for e in ended):
            found.add((part, int(final.begin_version)))
    return sorted(found)


def _live(home: Home, line: LineStatus, part: Range, version: Version) -> tuple[Segment, ...]:
    return home.catalog.segments(line.stream.name, part, producer=line.producer, as_of=version)


def _rows(segments: Sequence[Segment], part: Range) -> int:
    return sum(d.rows for segment in segments for d in segment.within(part).values())
