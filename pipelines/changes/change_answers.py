"""Changes of a stream between two versions, as an answer after which a consumer can continue.

An answer is settled before a row of it is read: its versions and its buckets. It never cuts a
version. It refuses unknown requests: an unknown version, a changed history, trimmed changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from medusa_core.changes import (
    BucketChange,
    LineVersion,
    as_one_change,
    bucket_changes,
    uncovered,
    versions_to_report,
)
from medusa_core.columns import Column
from medusa_core.errors import Expired, Refused, Unavailable
from medusa_core.grid import Range
from medusa_core.names import Version
from pipelines.base.time_text import iso
from pipelines.catalog.records import LineStatus
from pipelines.changes.changed_rows import BucketRows, RowChange, changed_rows
from pipelines.changes.line_versions import Position, VersionedLines, check_position, lost_before_us
from pipelines.storage.segment_rows import columns_of

VERSIONS_MAX = 1_000
"""Of so many versions one answer tells at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The changes of a line behind `since`, up to and with `until`, in the buckets of `part`.

    `has_more`: the line has come further already. `until.chain` with its version is the position to
    go on behind.
    """

    line: LineStatus
    since: Position
    until: LineVersion
    part: Range
    buckets: tuple[BucketChange, ...]
    has_more: bool

    @property
    def position(self) -> Position:
        """What a consumer keeps together with what it has applied."""
        return Position(self.until.version, self.until.chain)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The declared columns of a row."""
        return columns_of(self.line.stream)

    def rows(self, root: Path) -> Iterator[RowChange]:
        """The changes in order: by version and, inside one, by event time; bucket by bucket.

        Raises Unavailable if a file is gone or damaged.
        """
        columns = self.columns
        read = BucketRows(root, columns)
        for change in self.buckets:
            yield from changed_rows(change, read, columns, self.line.stream.key)


def changes_of(
    catalog: VersionedLines,
    line: LineStatus,
    since: Position,
    part: Range,
    *,
    until: Version | None = None,
    rows_max: int | None = None,
) -> Answer:
    """What changed in the buckets that begin in `part` since a position.

    Up to `until` (default: the newest version), or before it where more than `rows_max` rows
    changed or VERSIONS_MAX versions were made, but never less than one version. Raises Expired if
    some of it is trimmed, Refused or Diverged as `check_position`.
    """
    stood = check_position(catalog, line, since)
    if until is not None:
        check_position(catalog, line, Position(until))
        if until < since.version:
            raise Refused(f"--until {until} is before --since {since.version}: give it after")
    end = _end(catalog, line, since, stood, until, rows_max)
    difference = catalog.difference(
        line.stream.name, line.producer, since.version, end.version, part
    )
    # Only now: what was trimmed before the look is known, and what is trimmed later was seen.
    lost_us = lost_before_us(_again(catalog, line))
    if not as_one_change(stood, lost_us, part.from_us) and end.version > since.version:
        assert lost_us is not None
        raise Expired(
            f"what changed of {line.stream.name} after version {since.version} is trimmed before "
            f"{iso(lost_us)}: start again with a snapshot (`medusa read`), or take only what "
            "begins "
            "there with --from"
        )
    if uncovered(difference, part):
        raise Unavailable(
            f"the catalog lacks rows of {line.stream.name} that it promised at version "
            f"{end.version}: restore it from a backup"
        )
    return Answer(
        line=line,
        since=since,
        until=end,
        part=part,
        buckets=bucket_changes(difference, part),
        has_more=end.version < line.version and (until is None or end.version < until),
    )


def _end(
    catalog: VersionedLines,
    line: LineStatus,
    since: Position,
    stood: LineVersion | None,
    until: Version | None,
    rows_max: int | None,
) -> LineVersion:
    """Up to where the answer goes; where it began if nothing came after."""
    versions = catalog.line_versions(
        line.stream.name, line.producer, after=since.version, until=until, limit=VERSIONS_MAX
    )
    chosen = versions_to_report(versions, rows_max)
    if chosen is not None:
        return chosen
    # A line from before chains were kept has versions that nothing more is known of.
    head = line.version if until is None else until
    if head > since.version:
        return LineVersion(version=head)
    return stood or LineVersion(version=since.version, chain=since.chain)


def _again(catalog: VersionedLines, line: LineStatus) -> LineStatus:
    lines = catalog.lines(line.stream.name)
    return next(found for found in lines if found.producer == line.producer)
