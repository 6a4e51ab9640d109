"""Lines of streams in Postgres: their segments, versions and differences."""

from __future__ import annotations

from typing import Any

from medusa_core.certificates import LineEvent
from medusa_core.changes import Difference, LineVersion
from medusa_core.grid import BEGINNING_US, FOREVER_US, Range
from medusa_core.names import StreamName, Version
from medusa_core.segments import Producer, Segment
from pipelines.catalog.postgres import rows
from pipelines.catalog.postgres.certificates import event_of
from pipelines.catalog.postgres.home_database import HomeDatabase
from pipelines.catalog.reading_roles import Lines, LineVersions
from pipelines.catalog.records import LineStatus, StreamStatus


class PostgresLines(HomeDatabase, Lines, LineVersions):
    """Lines, their segments and their versions."""

    def lines(self, stream: StreamName | None = None) -> tuple[LineStatus, ...]:
        """See `Lines.lines`."""
        if stream is not None and not _is_text(stream):
            return ()  # no database holds such a name
        return tuple(rows.line_of(row) for row in self._rows("lines", stream=stream))

    def streams(self) -> tuple[StreamStatus, ...]:
        """See `Lines.streams`."""
        return tuple(rows.status_of(row) for row in self._rows("streams"))

    def segments(self, stream: StreamName, part: Range | None = None, *,
                 producer: Producer | None = None,
                 as_of: Version | None = None) -> tuple[Segment, ...]:  # fmt: skip
        """See `Lines.segments`."""
        values: dict[str, Any] = {
            "stream": stream,
            "from_us": part.from_us if part else BEGINNING_US,
            "to_us": part.to_us if part else FOREVER_US,
            "participant": producer.participant if producer else None,
            "replica": producer.replica if producer else None,
        }
        if as_of is None:
            found = self._rows("segments", **values)
        else:
            found = self._rows("segments_as_of", **values, as_of=as_of)
        return tuple(rows.segment_of(row, stream, rows.producer_of(row)) for row in found)

    def line_version(self, stream: StreamName, producer: Producer,
                     version: Version) -> LineVersion | None:  # fmt: skip
        """See `LineVersions.line_version`."""
        found = self._rows("line_version", **rows.line_fields(stream, producer), version=version)
        return next((LineVersion(**row) for row in found), None)

    def line_versions(self, stream: StreamName, producer: Producer, *, after: Version,
                      until: Version | None = None,
                      limit: int) -> tuple[LineVersion, ...]:  # fmt: skip
        """See `LineVersions.line_versions`."""
        found = self._rows(
            "line_versions",
            **rows.line_fields(stream, producer),
            after=after,
            until=until,
            limit=limit,
        )
        return tuple(LineVersion(**row) for row in found)

    def version_at(self, stream: StreamName, producer: Producer, at_ms: int) -> Version:
        """See `LineVersions.version_at`."""
        found = self._rows("version_at", **rows.line_fields(stream, producer), at_ms=at_ms)
        return Version(next((row["version"] for row in found), 0))

    def difference(self, stream: StreamName, producer: Producer, since: Version, until: Version,
                   part: Range) -> Difference:  # fmt: skip
        """See `LineVersions.difference`."""
        sides: dict[bool, list[Segment]] = {False: [], True: []}
        found = self._rows(
            "line_difference",
            **rows.line_fields(stream, producer),
            since=since,
            until=until,
            from_us=part.from_us,
            to_us=part.to_us,
        )
        for row in found:
            sides[row["is_after"]].append(rows.segment_of(row, stream, producer))
        of = rows.line_fields(stream, producer)
        (recalled,) = self._rows("recalled_between", **of, since=since, until=until)
        return Difference(
            before=tuple(sides[False]),
            after=tuple(sides[True]),
            recalled_us=FOREVER_US if recalled["from_us"] is None else recalled["from_us"],
            recalled_at=Version(recalled["version"] or 0),
        )

    def history(self, stream: StreamName, producer: Producer,
                part: Range) -> tuple[LineEvent, ...]:  # fmt: skip
        """See `LineVersions.history`."""
        found = self._rows(
            "line_history",
            **rows.line_fields(stream, producer),
            from_us=part.from_us,
            to_us=part.to_us,
        )
        return tuple(event_of(row) for row in found)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name
