"""The tables of a home at a version, and what changed between versions, as rows of files.

The version of a table is that of the line which `medusa read` reads: the stable rows at a version
are those of `medusa read STREAM --as-of VERSION`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from medusa_core.changes import LineVersion, as_one_change
from medusa_core.columns import Column, declare_columns
from medusa_core.errors import Expired, Refused
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.names import Version
from pipelines.base.time_text import iso, parse_time_us
from pipelines.catalog.sharing_records import SharedStream, SharedVersion
from pipelines.sharing.file_rows import ChangeRows, FileRows, PieceRows, schema_string
from pipelines.sharing.sharing_home import VersionedStreams
from pipelines.sharing.table_changes import all_changes, stable_changes
from pipelines.sharing.table_names import TableName
from pipelines.sharing.table_parts import Part, parts_of, pieces_of
from pipelines.storage.stable_rows import stable_through_us

VERSIONS_MAX = 10_000
"""Versions whose changes are in one answer."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of changes: `add`, `remove` or `cdf`, the rows, and the version that changed them."""

    kind: str
    rows: FileRows
    version: SharedVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTable:
    """A table for the holder of a token."""

    home: VersionedStreams
    token_id: int
    name: TableName
    stream: SharedStream

    @property
    def columns(self) -> tuple[Column, ...]:
        """The declared columns of the stream."""
        return declare_columns(f"stream {self.stream.name}", self.stream.columns)

    @property
    def schema_string(self) -> str:
        """The schema of the table, as a JSON text."""
        return schema_string(self.columns, has_marks=self.name.has_tentative)

    def version_of(self, option: str, given: int) -> Version:
        """A version that this home had; Refused, naming the option, for any other."""
        self._last_until(option, given)
        return Version(given)

    def version_at(self, option: str, given: str, *, is_after: bool = False) -> Version:
        """The version at a time, or the first from then on; Refused if there was none."""
        # The protocol's older form has a space, and means the server's time zone.
        at_ms = parse_time_us(option, given.strip().replace(" ", "T", 1)) // 1_000
        if at_ms > self.home.read_clock_ms():
            raise Refused(f"{option} is in the future: give a time that has passed")
        found = self.home.shared_version_at(
            self.token_id, self.stream.name, at_ms, is_after=is_after
        )
        if found is None:
            when = "at that time or later" if is_after else "at that time yet"
            raise Refused(f"{option}: the table had no version {when}: give another time")
        return found

    def snapshot(self, version: Version) -> Iterator[tuple[FileRows, int]]:
        """The files of the table at a version with their rows, in event-time order.

        Raises Expired if every row that was stable then is trimmed.
        """
        kept_us = self.stream.kept_from_us
        if kept_us is None or version == 0:
            return
        found = self.home.shared_segments(self.token_id, self.stream.name, version, kept_us)
        segments = [one.segment for one in found]
        through_us = FOREVER_US
        if not self.name.has_tentative:
            through_us = stable_through_us(segments, kept_us) or kept_us
            if version < self.stream.version and self._is_trimmed(version):
                raise Expired(
                    f"the rows of version {version} are trimmed before {iso(kept_us)}: read a "
                    f"later version, up to {self.stream.version}"
                )
        kept = Range(kept_us, through_us) if kept_us < through_us else None
        for piece in pieces_of(parts_of(segments, kept)):
            yield self._rows(piece), sum(part.rows for part in piece)

    def changes(self, first: Version, last: Version) -> Iterator[ChangedFile]:
        """The files of what the versions from `first` to `last` changed, in their order.

        Raises Expired if some of it is trimmed, and Refused for more than VERSIONS_MAX versions.
        """
        after = Version(max(first - 1, 0))
        if last - after > VERSIONS_MAX:
            raise Refused(
                f"versions {first} to {last} are more than {VERSIONS_MAX}: request them in parts, "
                f"up to endingVersion={after + VERSIONS_MAX} first"
            )
        found = self.home.shared_versions(
            self.token_id, self.stream.name, after, last, VERSIONS_MAX
        )
        before = [one for one in found if one.version <= after]
        versions = [one for one in found if one.version > after]
        since_us = before[-1].stable_us if before else None
        stood = LineVersion(version=after, stable_us=since_us) if before else None
        lost_us = self.stream.lost_before_us
        if not as_one_change(stood, lost_us, BEGINNING_US):
            assert lost_us is not None
            raise Expired(
                f"what changed after version {after} is trimmed before {iso(lost_us)}: read the "
                "table, and request the changes that follow its version"
            )
        changed = self.home.shared_changes(self.token_id, self.stream.name, after, last)
        if self.name.has_tentative:
            for change in all_changes(changed, versions):
                rows = ChangeRows(self.columns, self.stream.key, change.buckets)
                yield ChangedFile("cdf", rows, change.version)
            return
        from_us = BEGINNING_US if since_us is None else since_us
        live = self.home.shared_segments(self.token_id, self.stream.name, after, from_us)
        for its in stable_changes(live, changed, since_us, versions):
            for kind, parts in (("remove", its.removed), ("add", its.added)):
                for piece in pieces_of(parts):
                    yield ChangedFile(kind, self._rows(piece), its.version)

    def _rows(self, piece: tuple[Part, ...]) -> FileRows:
        return PieceRows(self.columns, piece, self.name.has_tentative)

    def _last_until(self, option: str, version: int) -> SharedVersion | None:
        """A version; Refused if this home never had it. None for the empty table, version 0."""
        newest = self.stream.version
        if version > newest:
            raise Refused(f"{option} {version} is not there yet: the newest version is {newest}")
        found = self.home.shared_versions(
            self.token_id, self.stream.name, Version(version), Version(version), 0
        )
        if version > 0 and (not found or found[0].version != version):
            before = found[0].version if found else 0
            raise Refused(
                f"{option} {version} is no version of this table: the one before it is {before}"
            )
        return found[0] if found else None

    def _is_trimmed(self, version: Version) -> bool:
        lost_us = self.stream.lost_before_us
        its = self._last_until("version", version)
        return lost_us is not None and (
            its is None or its.stable_us is None or its.stable_us <= lost_us
        )
